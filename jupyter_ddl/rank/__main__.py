"""Runs one rank's process, started by mpiexec: `python -m jupyter_ddl.rank`.

The order matters: the rank's device is pinned before TensorFlow is imported, and TensorFlow's import begins before
anything else that takes time.
"""

from __future__ import annotations

import json
import os
import time
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_ddl.engine.preload import Warmup


def main() -> None:
    """Become a rank: MPI, the device, TensorFlow in the background, then the ipyparallel engine.

    Runs on: every rank.
    """
    began_s = time.monotonic()
    from jupyter_ddl import paths
    from jupyter_ddl.rank import start_up

    start_up.begin()
    # Inherited by what cells start, it would make no sense.
    gate = os.environ.pop(paths.GATE_VARIABLE, None)
    settings = json.loads(os.environ[paths.RANKS_VARIABLE])

    import mpi4py

    # Python's exit would wait in MPI_Finalize for all other ranks: one that fails here ends alone, and mpiexec sees it.
    mpi4py.rc.finalize = False
    world = start_up.join_world(settings["n"])

    from jupyter_ddl.engine import shell_names
    from jupyter_ddl.engine.collectives.site import add_site_libraries
    from jupyter_ddl.engine.devices import keep_to_share
    from jupyter_ddl.engine.host_folder import HostFolder
    from jupyter_ddl.engine.preload import Warmup
    from jupyter_ddl.protocol.frameworks import imports_keras

    # The one call of the training layer by this composition root. It comes before the background imports: hooks cannot
    # be added to a module that is already being imported.
    from jupyter_ddl.rank.install import install

    state = install()
    framework = start_up.framework_of_all(world, settings["framework"])
    with start_up.ended_by_errors(world):
        pinned, shared = start_up.pin_device(
            world,
            settings["devices"],
            settings["threads"],
            start_up.allotment_in(settings),
            oversubscribe=settings["oversubscribe"],
            for_torch=framework == "torch",
            stands_by=gate is not None,
        )
        folder = HostFolder.of_this_host(settings, world.host)
        start_up.prepare_ml(world)
    start_up.add_collectives(state, world, shared)
    state.variables.imports_keras = imports_keras(framework)
    shell_names.install()
    warmup = Warmup(world, state.horovod, framework, pinned.threads, began_s)
    if gate is not None:
        _stand_by(warmup, gate)
        keep_to_share(world, pinned)
    warmup.start()
    with start_up.ended_by_errors(world):
        # Meanwhile the framework is imported.
        add_site_libraries(state.collectives, world)

    from jupyter_ddl.engine.app import RankEngine
    from jupyter_ddl.engine.hand_over import handed_over

    # The controller may start meanwhile.
    connection = handed_over(world) if settings["is_handed_over"] else ""
    RankEngine.run(world, state, pinned, warmup, folder, world_id=settings["world_id"], connection=connection)


def _stand_by(warmup: Warmup, gate: str) -> None:
    """Import everything, and wait at the gate until this rank is wanted."""
    from jupyter_ddl.engine.stand_by import wait_at

    # All that `main` imports below, too: it is sooner there, and of one version with what is imported above.
    import_module("jupyter_ddl.engine.app")
    warmup.stand_by(partial(wait_at, gate))


if __name__ == "__main__":
    main()
