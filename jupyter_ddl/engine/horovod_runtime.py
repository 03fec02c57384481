"""Horovod's life on one rank: loaded once, initialised for a cell that needs it, at rest between cells.

Its background thread spins inside Open MPI, a whole core for each idle rank, so it must not outlive the cell. Shutting
down and initialising again takes some milliseconds, since MPI itself stays initialised: mpi4py owns it.

Runs on: every rank. Nothing here imports Horovod until `load` has.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What Horovod's C++ core says in every collective that it gives up when any rank shuts down.
# Source: horovod 0.28.1, horovod/common/common.h, SHUT_DOWN_ERROR
SHUT_DOWN_TEXT = "Horovod has been shut down"

# In a cell on some of the ranks the others will never enter a collective of all, so Horovod's stall inspector may give
# up at once. Its defaults (a warning after 60 s, no shutdown) suit ranks that are merely late.
# Source: horovod 0.28.1, horovod/common/stall_inspector.cc
_SUBSET_STALL = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2"}

_init: Callable[..., None] | None = None
_environment: dict[str, str] = {}
_subset = False
_used = False


def load() -> str:
    """Import Horovod for TensorFlow, watch its `init`, and return its version.

    Raises:
        ImportError: it is not installed, or not built for this TensorFlow.
    """
    global _init
    from horovod.common.basics import HorovodBasics

    if _init is None:
        # Before horovod.tensorflow makes its instance: every framework's `hvd.init` then comes through `_watched_init`.
        _init = HorovodBasics.init
        HorovodBasics.init = _watched_init
    import horovod.tensorflow

    version: str = horovod.__version__
    return version


def is_used() -> bool:
    """Return whether the user's code has called `hvd.init()` on this rank."""
    return _used


def initialise(*, subset: bool) -> None:
    """Shut Horovod down if it runs, and initialise it as the environment now says.

    Collective: every rank must call this.

    Args:
        subset: the cell runs on some of the ranks only, so a collective of all ranks is an error at once.
    """
    global _subset, _environment
    basics = _basics()
    if basics is None:
        return
    _subset = subset
    _environment = _horovod_environment()
    basics.shutdown()
    with _environment_with(_SUBSET_STALL if subset else {}):
        _start(basics)


def rest() -> None:
    """Shut Horovod down, if it runs on this rank.

    A shutdown on one rank ends Horovod on all: call it when every rank has finished with it.
    """
    basics = _basics()
    if basics is not None:
        basics.shutdown()


def abandon() -> None:
    """Shut Horovod down from a thread of its own, so that ranks blocked in a collective get an error now.

    Never blocks: `shutdown` itself waits for a peer that is frozen.
    """
    if _basics() is not None:
        threading.Thread(target=rest, name="jupyter_ddl Horovod shutdown", daemon=True).start()


def has_process_sets() -> bool:
    """Return whether the user has made process sets, which would not outlive a shutdown."""
    basics = _basics()
    return basics is not None and basics.is_initialized() and len(basics._get_process_set_ids_and_ranks()) > 1


def _watched_init(basics: Any, comm: Any = None, process_sets: Any = None) -> None:
    """Stand in for `HorovodBasics.init`, so that what the user's call asks for takes effect.

    Stock `init` ignores its arguments, and HOROVOD_* variables set since, when Horovod already runs.
    """
    global _used, _environment
    _used = True
    asks = comm is not None or process_sets is not None or _horovod_environment() != _environment
    if basics.is_initialized() and not asks:
        return
    if _subset:
        raise InvalidInput(
            "Horovod is initialised by all ranks together, and this cell runs on some of them.",
            "hvd.init() with new arguments or HOROVOD_* variables",
            "Run the cell that calls it on all ranks.",
        )
    if basics.is_initialized():
        basics.shutdown()
    _environment = _horovod_environment()
    _start(basics, comm, process_sets)


def _start(basics: Any, *arguments: Any) -> None:
    assert _init is not None, "load() comes first"
    _init(basics, *arguments)
    # Stock init registers one more shutdown at exit each time that it is called. At exit Horovod is at rest, or its
    # peers are gone and a shutdown would wait for them.
    atexit.unregister(basics.shutdown)


def _basics() -> Any:
    """Return Horovod's C++ core as TensorFlow's layer holds it; None where it is not loaded."""
    mpi_ops = sys.modules.get("horovod.tensorflow.mpi_ops")
    return getattr(mpi_ops, "_basics", None)


def _horovod_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("HOROVOD_")}


@contextmanager
def _environment_with(variables: dict[str, str]) -> Iterator[None]:
    """Set variables while Horovod reads its environment, and put back what the user had."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
