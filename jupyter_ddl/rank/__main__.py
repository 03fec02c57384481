"""Runs one rank's process, started by mpiexec: `python -m jupyter_ddl.rank`.

The order matters: the rank's device is pinned before TensorFlow is imported, and TensorFlow's import begins before
anything else that takes time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from importlib import import_module


def main() -> None:
    """Become a rank: MPI, the device, TensorFlow in the background, then the ipyparallel engine.

    Runs on: every rank.
    """
    began_s = time.monotonic()
    from jupyter_ddl import paths
    from jupyter_ddl.host.process_tree import end_with_parent

    end_with_parent()
    # Inherited by what cells start, it would make no sense.
    gate = os.environ.pop(paths.GATE_VARIABLE, None)
    settings = json.loads(os.environ[paths.RANKS_VARIABLE])
    horovod_dir = os.environ.get(paths.HOROVOD_VARIABLE)
    if horovod_dir:
        sys.path.insert(0, horovod_dir)

    import mpi4py

    # Python's exit would wait in MPI_Finalize for all other ranks: one that fails here ends alone, and mpiexec sees it.
    mpi4py.rc.finalize = False
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.errors import ClusterError, InvalidInput

    try:
        world = World.join(settings["n"])
    except InvalidInput as error:
        # The kernel shows what mpiexec printed.
        sys.exit(str(error))

    from jupyter_ddl.engine import devices
    from jupyter_ddl.engine.collectives.jax_processes import JaxProcesses
    from jupyter_ddl.engine.collectives.meeting_point import MeetingPoint
    from jupyter_ddl.engine.collectives.site import add_site_libraries
    from jupyter_ddl.engine.collectives.tensorflow_collectives import TensorflowCollectives
    from jupyter_ddl.engine.collectives.torch_groups import TorchGroups
    from jupyter_ddl.engine.host_folder import HostFolder
    from jupyter_ddl.engine.preload import Warmup
    from jupyter_ddl.engine.stand_by import wait_at
    from jupyter_ddl.protocol.frameworks import AUTO, imports_keras, installed

    # The one call of the training layer by this composition root. It comes before the background imports: hooks cannot
    # be added to a module that is already being imported.
    from jupyter_ddl.rank.install import install
    from jupyter_ddl.torch_training import installation

    state = install()
    # One choice for all: what is installed may differ between hosts.
    chosen = settings["framework"]
    framework = world.communicator.bcast(installed() if chosen == AUTO else chosen)
    try:
        own = settings["devices"]
        if own is None:
            own = devices.of_this_host(world.local_size, oversubscribe=settings["oversubscribe"])
        for_torch = framework == "torch"
        pinned = devices.pin(own, world.local_rank, world.local_size, settings["threads"], for_torch=for_torch)
        folder = HostFolder.of_this_host(settings, world.host)
    except (InvalidInput, ClusterError, OSError) as error:
        sys.exit(f"Rank {world.rank} on {world.host}: {error}")
    point, shared = MeetingPoint.of(world), devices.shared(own, world.local_rank, pinned)
    groups = TorchGroups.of(world, point, shared)
    state.collectives.add(groups)
    installation.install(state, world, groups)
    state.collectives.add(JaxProcesses.of(world, point.beside(world), shared))
    state.collectives.add(TensorflowCollectives())
    state.variables.imports_keras = imports_keras(framework)
    warmup = Warmup(world, state.horovod, framework, pinned.threads, began_s)
    if gate is not None:
        # All that is imported below, too: it is sooner there, and of one version with what is imported above.
        import_module("jupyter_ddl.engine.app")
        warmup.stand_by(partial(wait_at, gate))
    warmup.start()
    try:
        # Meanwhile the framework is imported.
        add_site_libraries(state.collectives, world)
    except ClusterError as error:
        sys.exit(f"Rank {world.rank} on {world.host}: {error}")

    from jupyter_ddl.engine.app import RankEngine
    from jupyter_ddl.engine.hand_over import handed_over

    # The controller may start meanwhile.
    connection = handed_over(world) if settings["is_handed_over"] else ""
    RankEngine.run(world, state, pinned, warmup, folder, world_id=settings["world_id"], connection=connection)


if __name__ == "__main__":
    main()
