"""Asks Horovod's C++ core, where a framework has loaded it. Nothing here imports Horovod.

Runs on: every rank.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.events import CollectiveStalled

# What Horovod's C++ core says in every collective that it gives up when any rank shuts down.
# Source: horovod 0.28.1, horovod/common/common.h, SHUT_DOWN_ERROR
_SHUT_DOWN = "Horovod has been shut down"

# What it says where ranks were to change the process sets, which waits for all of them as a collective does.
# Source: horovod 0.28.1, horovod/common/basics.py, _add_process_set_impl
_SHUTTING_DOWN = "Horovod is shutting down"

# What it says where such a collective is of a process set, and begins after that: the sets are gone by then. A program
# that names a set which it has not registered gets the same.
# Source: horovod 0.28.1, horovod/common/operations.cc, EnqueueTensor...; horovod/common/basics.py, _process_set_size
_NO_PROCESS_SET = re.compile("rocess set (?:provided )?does not exist,? or has not been registered")


def core_of(framework: str = "tensorflow") -> Any:
    """Return Horovod's C++ core as its layer for a framework holds it; None where that is not loaded."""
    return getattr(sys.modules.get(f"horovod.{framework}.mpi_ops"), "_basics", None)


def runs(core: Any) -> bool:
    """Return whether a core is initialised. Its own method also says so of one that is started when it is needed."""
    return bool(core.MPI_LIB_CTYPES.horovod_is_initialized())


def says_shut_down(text: str) -> bool:
    """Return whether an error's text says that Horovod has given up all collectives."""
    return _SHUT_DOWN in text or _SHUTTING_DOWN in text


def says_ended_elsewhere(text: str) -> bool:
    """Return whether an error's text says that another rank has shut Horovod down.

    To be asked before this rank does.
    """
    return says_shut_down(text) or (_NO_PROCESS_SET.search(text) is not None and _has_ended())


def _has_ended() -> bool:
    """Return whether Horovod was initialised on this rank, and another one has shut it down since."""
    core = core_of()
    if core is None or not runs(core):
        return False
    try:
        core._get_process_set_ids_and_ranks()
    except ValueError:
        # "Horovod has not been initialized properly": not even the set of all ranks is there.
        return True
    return False


def with_known_ranks(stalled: CollectiveStalled, world: World) -> CollectiveStalled:
    """Return a stall without the missing ranks where these may be others than MPI's, or that is not known.

    Horovod counts those of a process set, or of the user's communicator, by themselves.
    """
    cores = (core_of("tensorflow"), core_of("torch"))
    is_known = any(core is not None and _has_all_ranks(core, world) for core in cores)
    return stalled if is_known else replace(stalled, missing={})


def _has_all_ranks(core: Any, world: World) -> bool:
    """Return whether Horovod runs with MPI's ranks, and with no process sets."""
    try:
        has_sets = len(core._get_process_set_ids_and_ranks()) > 1
        return not has_sets and (core.rank(), core.size()) == (world.rank, world.world_size)
    except (ValueError, RuntimeError):
        # It has been shut down meanwhile, or a set is being added.
        return False
