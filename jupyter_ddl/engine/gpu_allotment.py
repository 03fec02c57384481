"""Takes the GPUs of this rank's host that a site's profile gives its ranks.

One process claims those of all ranks of the host, one after the other, and holds the claims as long as it lives: so
ranks of one world get different GPUs where there are as many.

Runs on: every rank, before a framework is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterError, InvalidInput
from jupyter_ddl.host import gpu_claims
from jupyter_ddl.host.topology import usable_gpus
from jupyter_ddl.protocol.number_texts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.engine.world import World
    from jupyter_ddl.host.topology import Gpu
    from jupyter_ddl.protocol.gpu_allotment import GpuAllotment


def allotted(world: World, allotment: GpuAllotment) -> list[str]:
    """Return the device of each local rank, none where this host has no GPU.

    Collective: every rank of a host must call this.

    Args:
        world: the rank's.
        allotment: how the site gives them out.

    Raises:
        ClusterError: fewer are free than this host has ranks; or NVML is there but does not work.
    """
    # Text for an error: what ours are made of is no argument of theirs, so that no other process could read them.
    answer: list[str] | str = ""
    if world.local_rank == 0:
        try:
            answer = _claimed(world.local_size, allotment)
        except (InvalidInput, ClusterError) as error:
            answer = str(error)
    answer = world.node.bcast(answer)
    if isinstance(answer, str):
        raise ClusterError(answer)
    return answer


def _claimed(count: int, allotment: GpuAllotment) -> list[str]:
    usable = usable_gpus(allotment.among)
    given: list[str] = []
    while usable and len(given) < count:
        device = _claimed_one(usable, given, allotment)
        if device is None:
            room = f"room for {len(given)} on {counted(len(usable), 'GPU')}"
            raise allotment.refused(f"{counted(count, 'rank')}, and {room}")
        given.append(device)
    return given


def _claimed_one(usable: Sequence[Gpu], given: Sequence[str], allotment: GpuAllotment) -> str | None:
    """Claim a place of the GPU that has the fewest ranks of this world, and of these the fewest of all; return it."""
    held = gpu_claims.claims(gpu.uuid for gpu in usable)
    for gpu in sorted(usable, key=lambda gpu: (given.count(gpu.device), gpu_claims.count_of(gpu.uuid, held))):
        places = range(allotment.places(gpu.memory_total_bytes)) if allotment.share_bytes is not None else (None,)
        if any(gpu_claims.claim(gpu.uuid, place) for place in places):
            return gpu.device
    return None
