"""Plans ranks for GPUs that a site's profile gives out, and says who has those that are taken.

The ranks claim theirs as they start (`engine.gpu_allotment`): two users who start in one moment may both be let pass
here, and one is refused there.

Runs on: kernel, a script's terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.host import gpu_claims
from jupyter_ddl.host.topology import usable_gpus
from jupyter_ddl.protocol.number_texts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.host.topology import Gpu
    from jupyter_ddl.launch.profiles.limits import Allowed
    from jupyter_ddl.protocol.gpu_allotment import GpuAllotment


def default_count(devices: Sequence[str], allowed: Allowed, allotment: GpuAllotment) -> int:
    """Return how many ranks a start has that names no number: one for each GPU with room, as far as is allowed.

    Args:
        devices: those that the ranks may get.
        allowed: the most that the profile allows.
        allotment: how it gives GPUs out.
    """
    pool = usable_gpus(devices)
    held = gpu_claims.claims(gpu.uuid for gpu in pool)
    with_room = sum(_free(gpu, held, allotment) > 0 for gpu in pool)
    return max(1, with_room if allowed.ranks is None else min(with_room, allowed.ranks))


def check_free(spec: ClusterSpec, before: ClusterSpec | None = None) -> None:
    """Check that the GPUs of this host have room for the ranks that are to start, where its site gives them out.

    Args:
        spec: what is to start.
        before: what is to end first, and has places until then.

    Raises:
        InvalidInput: they have not; the error says who has them.
    """
    allotment = spec.allotment
    if allotment is None or not _has_places(spec):
        return
    pool = usable_gpus(allotment.among)
    held = gpu_claims.claims(gpu.uuid for gpu in pool)
    free = sum(_free(gpu, held, allotment) for gpu in pool)
    if before is not None and _has_places(before):
        free += before.n
    if not pool or spec.n <= free:
        return
    users = gpu_claims.users_of(held)
    rest = f"; ranks of {users} have the rest" if users else ""
    raise allotment.refused(f"{counted(spec.n, 'rank')}, and room for {free} on {counted(len(pool), 'GPU')}{rest}")


def note(spec: ClusterSpec) -> str:
    """Return what the start says of the GPUs that the ranks get; "" where a site gives none out."""
    allowed = spec.allowed
    if allowed is None or allowed.gpus is None or not spec.finds_devices:
        return ""
    return f" Each gets {allowed.share_of_gpu} (the profile {allowed.profile_of('gpus')})."


def _has_places(spec: ClusterSpec) -> bool:
    return spec.allotment is not None and spec.finds_devices and spec.place.is_here


def _free(gpu: Gpu, held: set[gpu_claims.Claim], allotment: GpuAllotment) -> int:
    """Return how many places of a GPU no rank has."""
    taken = gpu_claims.count_of(gpu.uuid, held)
    if gpu_claims.has_whole(gpu.uuid, held) or (allotment.share_bytes is None and taken):
        return 0
    return max(0, allotment.places(gpu.memory_total_bytes) - taken)
