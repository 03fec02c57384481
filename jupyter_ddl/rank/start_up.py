"""What a rank of a cluster and a rank of a script do alike as they start.

Modules that take time to import are imported by who needs them, since a rank's framework comes first.

Runs on: every rank.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_ddl import paths
from jupyter_ddl.host.process_tree import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jupyter_ddl.engine.devices import Pinned
    from jupyter_ddl.engine.rank_state import RankState
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.gpu_allotment import GpuAllotment


def begin() -> None:
    """End with mpiexec from now on, and find the Horovod that was built into a folder of its own."""
    end_with_parent()
    horovod_dir = os.environ.get(paths.HOROVOD_VARIABLE)
    if horovod_dir:
        sys.path.insert(0, horovod_dir)


def join_world(n: int) -> World:
    """Join the MPI world of `n` ranks; where it is another one, end with what the kernel shows of mpiexec's output.

    Collective: every rank must call this.
    """
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.errors import InvalidInput

    try:
        return World.join(n)
    except InvalidInput as error:
        sys.exit(str(error))


def framework_of_all(world: World, chosen: str) -> str:
    """Return what all ranks import first: what was chosen, else what rank 0 has, since hosts may differ in it.

    Collective: every rank must call this.
    """
    from jupyter_ddl.protocol.frameworks import AUTO, installed

    found: str = world.communicator.bcast(installed() if chosen == AUTO else chosen)
    return found


@contextmanager
def ended_by_errors(world: World) -> Iterator[None]:
    """End this process where the block raises an error of ours or of the system, which names the rank."""
    from jupyter_ddl.errors import ClusterError, InvalidInput

    try:
        yield
    except (InvalidInput, ClusterError, OSError) as error:
        sys.exit(f"Rank {world.rank} on {world.host}: {error}")


def pin_device(
    world: World,
    own: Sequence[str] | None,
    threads: int | None,
    allotment: GpuAllotment | None,
    *,
    oversubscribe: bool,
    for_torch: bool,
    stands_by: bool = False,
) -> tuple[Pinned, str | None]:
    """Make the rank's own device the one that frameworks use; return it, and its name where others share it.

    Collective: every rank must call this.

    Args:
        world: the rank's.
        own: the device of each rank of this host; None for this host's GPUs in their order.
        threads: of each rank.
        allotment: how a site gives the ranks of a host its GPUs; None where they take what they find.
        oversubscribe: several ranks may share a GPU.
        for_torch: PyTorch is what the rank's code uses: it sees the other ranks' GPUs too.
        stands_by: the ranks whose place it takes have its cores; it keeps to none before `devices.keep_to_share`.

    Raises:
        InvalidInput: this host has fewer GPUs than ranks.
        ClusterError: fewer of those that its site gives out are free.
    """
    from jupyter_ddl.engine import devices, gpu_allotment, gpu_share

    if own is None and allotment is not None:
        own = gpu_allotment.allotted(world, allotment)
    elif own is None:
        own = devices.of_this_host(world.local_size, oversubscribe=oversubscribe)
    pinned = devices.pin(own, world.local_rank, world.local_size, threads, for_torch=for_torch)
    if own and allotment is not None and allotment.share_bytes is not None:
        gpu_share.keep_within(allotment.share_bytes, own[world.local_rank])
    if not stands_by:
        devices.keep_to_share(world, pinned)
    return pinned, devices.shared(own, world.local_rank, pinned)


def allotment_in(settings: Mapping[str, Any]) -> GpuAllotment | None:
    """Return how a site gives a cluster's ranks their GPUs, as their settings have it."""
    from jupyter_ddl.protocol.codec import record_of
    from jupyter_ddl.protocol.gpu_allotment import GpuAllotment

    given = settings.get("allotment")
    return None if given is None else record_of(GpuAllotment, given)


def add_collectives(state: RankState, world: World, shared: str | None) -> None:
    """Add each framework's collectives, before any framework is imported.

    Collective: every rank must call this.

    Args:
        state: the rank's.
        world: the rank's.
        shared: the GPU that other ranks use too.
    """
    from jupyter_ddl.engine.collectives.jax_processes import JaxProcesses
    from jupyter_ddl.engine.collectives.meeting_point import MeetingPoint
    from jupyter_ddl.engine.collectives.tensorflow_collectives import TensorflowCollectives
    from jupyter_ddl.engine.collectives.torch_groups import TorchGroups
    from jupyter_ddl.engine.timelines.jax_profile import JaxProfile
    from jupyter_ddl.engine.timelines.tensorflow_profile import TensorflowProfile
    from jupyter_ddl.engine.timelines.torch_profile import TorchProfile
    from jupyter_ddl.ml.exchange import Exchange
    from jupyter_ddl.torch_training import installation

    point = MeetingPoint.of(world)
    groups = TorchGroups.of(world, point, shared)
    state.collectives.add(groups)
    state.collectives.add(TorchProfile.of(world, state.cells))
    installation.install(state, world, groups)
    processes, profile = JaxProcesses.of(world, point.beside(world), shared), JaxProfile.of(world, state.cells)
    processes.begun = profile.start
    state.collectives.add(processes)
    state.collectives.add(profile)
    state.collectives.add(TensorflowCollectives())
    state.collectives.add(TensorflowProfile.of(world, state.cells))
    exchange = state.part(Exchange)
    exchange.world = world
    state.collectives.add(exchange)


def prepare_ml(world: World) -> None:
    """Wait for the imports of scikit-learn, of Snap ML, and of libraries that have other names today.

    Raises:
        InvalidInput: what is to accelerate it is not installed.
    """
    from jupyter_ddl.ml import accelerated, old_names, snapml_alone

    old_names.install()
    snapml_alone.install()
    accelerated.install(world.rank)
