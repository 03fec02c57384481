"""`python -m jupyter_ddl.rank`: one rank's process, started by mpiexec.

The order is the point: the rank's device is pinned before TensorFlow is imported, and TensorFlow's import begins
before anything else that takes time.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> None:
    """Become a rank: MPI, the device, TensorFlow in the background, then the ipyparallel engine.

    Runs on: every rank.
    """
    began_s = time.monotonic()
    from jupyter_ddl.host.process_tree import end_with_parent

    end_with_parent()
    settings = json.loads(os.environ["JUPYTER_DDL_RANKS"])
    horovod_dir = os.environ.get("JUPYTER_DDL_HOROVOD")
    if horovod_dir:
        sys.path.insert(0, horovod_dir)

    import mpi4py

    # Python's end would wait in MPI_Finalize for all other ranks: one that fails here ends alone, and mpiexec sees it.
    mpi4py.rc.finalize = False
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.errors import InvalidInput

    try:
        world = World.join(settings["n"])
    except InvalidInput as error:
        # What mpiexec printed is what the kernel tells.
        sys.exit(str(error))

    from jupyter_ddl.engine import devices
    from jupyter_ddl.engine.preload import Warmup

    # The one line by which the rank's process, whose composition root this is, knows the training layer. Before the
    # warm-up: a module that is being imported already can no longer be waited for.
    from jupyter_ddl.rank.install import install

    install()
    pinned = devices.pin(settings["devices"], world.local_rank, world.local_size, settings["threads"])
    warmup = Warmup(world, pinned.threads, began_s)
    warmup.start()

    from jupyter_ddl.engine.app import RankEngine

    RankEngine.run(world, pinned, warmup, world_id=settings["world_id"], connection_file=settings["connection_file"])


if __name__ == "__main__":
    main()
