"""Provides `hvd.init()`, which checks that the ranks that were started are one world.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from jupyter_ddl.engine import run_context
from jupyter_ddl.engine.world import check_started_world
from jupyter_ddl.training.backends import hvd


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Initialise Horovod, as `horovod.tensorflow.init` does.

    Collective: every rank must call this.

    Args:
        comm: a communicator of mpi4py's, or a list of ranks; by default all ranks.
        process_sets: the process sets to make, or "dynamic".

    Raises:
        InvalidInput: this script was started as one of several ranks, and MPI made several worlds of them.

    Example:
        >>> hvd.init()
        >>> 0 <= hvd.rank() < hvd.size()
        True
    """
    hvd.init(comm, process_sets)
    # Ranks of ours were checked when they started.
    if comm is None and run_context.current() is None:
        check_started_world(hvd.size())
