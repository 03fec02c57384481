"""Horovod's life on one rank: loaded once, initialised for a cell that needs it, at rest between cells.

Its background thread spins inside Open MPI, a whole core for each idle rank, so it must not outlive the cell. Shutting
down and initialising again takes some milliseconds, since MPI itself stays initialised: mpi4py owns it. What the user's
own `hvd.init(comm, process_sets)` asked for is remembered, so that it holds in the next cell too.

Runs on: every rank. Nothing here imports Horovod until `load` has.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine import late_variables, timeline_file
from jupyter_ddl.engine.patching import Layer, patch
from jupyter_ddl.engine.timeline_file import TimelineFile
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

_STALL_CHECK = "HOROVOD_STALL_CHECK_TIME_SECONDS"

# Two threads that shut Horovod down at once would join its background thread twice, which is undefined.
_lock = threading.Lock()
_stock_init: Callable[..., None] | None = None
_stock_shutdown: Callable[[Any], None] | None = None
# Counts initialisations, so that a shutdown that was asked for under one cannot end the next.
_generation = 0
_environment: dict[str, str] = {}
_communicator: Any = None
_had_communicator = False
_process_sets: list[Any] = []
_on_subset = False
_stall: dict[str, str] = {}
_problem: str | None = None
_used = False
# The file that HOROVOD_TIMELINE names, by its path; and that of Horovod's life that goes on.
_timelines: dict[str, TimelineFile] = {}
_timeline: TimelineFile | None = None
# The coordinator's writer closes the file within milliseconds, unless Horovod is shut down at that moment.
_TIMELINE_CLOSES_S = 2.0


def watch() -> None:
    """Watch Horovod's `init` and what else it must not forget, once.

    Before anything imports horovod.tensorflow, which takes these functions over: every framework's `hvd.init` then
    comes through `_init`.

    Raises:
        ImportError: Horovod is not installed.
    """
    global _stock_init, _stock_shutdown
    from horovod.common import process_sets
    from horovod.common.basics import HorovodBasics

    if _stock_init is None:
        assert "horovod.tensorflow" not in sys.modules, "too late: it holds the stock functions"
        _stock_init, _stock_shutdown = HorovodBasics.init, HorovodBasics.shutdown
    for owner, name, ours in (
        (HorovodBasics, "init", _init),
        (HorovodBasics, "shutdown", _shutdown),
        (process_sets, "add_process_set", _add_process_set),
        (process_sets, "remove_process_set", _remove_process_set),
    ):
        patch(owner, name, ours, Layer.RANK)


def load() -> str:
    """Import Horovod for TensorFlow, after `watch`, and return its version.

    Raises:
        ImportError: it is not installed, or not built for this TensorFlow.
    """
    watch()
    import horovod.tensorflow

    version: str = horovod.__version__
    return version


def refuse(problem: str) -> None:
    """Have `hvd.init()` raise from now on: some rank has no Horovod, and the others would wait for it for ever."""
    global _problem
    _problem = problem


def is_used() -> bool:
    """Return whether the user's code has called `hvd.init()` on this rank."""
    return _used


def is_running() -> bool:
    """Return whether Horovod is initialised on this rank."""
    basics = _basics()
    return basics is not None and basics.is_initialized()


def generation() -> int:
    """Return how often Horovod has been initialised on this rank."""
    return _generation


def begin_cell(*, on_subset: bool, stall_after_s: float | None = None) -> None:
    """Note what holds for the cell that begins.

    Args:
        on_subset: it runs on some of the ranks only, which cannot initialise Horovod alone.
        stall_after_s: Horovod's stall inspector is to find a stall within this time; None leaves it as it is.
    """
    global _on_subset, _stall
    _on_subset = on_subset
    # A tensor that Horovod has in its cache is found after four intervals, and a stall is told when it is seen twice.
    _stall = {} if stall_after_s is None else {_STALL_CHECK: str(max(1, int(stall_after_s / 10)))}


def end_cell() -> None:
    """Complete the timeline, if there is one, before the end of a cell is reported. Horovod itself runs on."""
    basics, timeline = _basics(), _timeline
    if timeline is None or basics is None or not basics.is_initialized() or not timeline.part.exists():
        return

    def close() -> None:
        with suppress(ValueError):  # shut down meanwhile, which closes it too
            basics.stop_timeline()

    # Not here: where a peer shuts Horovod down at this moment the call does not return.
    closing = threading.Thread(target=close, name="jupyter_ddl timeline", daemon=True)
    closing.start()
    closing.join(_TIMELINE_CLOSES_S)
    # A shutdown that waits for a frozen peer holds the lock, and joins by itself when it ends.
    if not closing.is_alive() and _lock.acquire(timeout=_TIMELINE_CLOSES_S):
        try:
            timeline.join()
        finally:
            _lock.release()


def has_own_ranks() -> bool:
    """Return whether Horovod may count ranks otherwise than MPI: in the user's process sets, or communicator."""
    return bool(_process_sets) or _communicator is not None


def initialise(communicator: Any, *, on_subset: bool) -> None:
    """Shut Horovod down if it runs, and initialise it as the user did last, and as the environment now says.

    Collective: every rank must call this.

    Args:
        communicator: all ranks of the world, for messages of ours.
        on_subset: the cell runs on some of the ranks only, so a collective of all ranks is an error at once.
    """
    global _environment
    basics = _basics()
    if basics is None:
        return
    _agree(communicator)
    with _lock, _environment_with(_SUBSET_STALL if on_subset else {}):
        _shut_down(basics)
        try:
            _start(basics, _communicator, _process_sets)
        finally:
            # A rank whose cell shuts Horovod down at once would end it under others that are still setting it up.
            communicator.Barrier()
    _environment = _horovod_environment()


def _agree(communicator: Any) -> None:
    """Keep what the user asked for at the last `hvd.init` only where all ranks have it: they would wait for each other.

    Collective: every rank must call this.
    """
    global _communicator, _process_sets
    mine = _communicator is not None, [process_set.ranks for process_set in _process_sets]
    everyone = communicator.allgather(mine)
    if not all(has_communicator for has_communicator, _ in everyone):
        # Some ranks were initialised by themselves: all of them together are the world again.
        _communicator = None
    if any(sets != mine[1] for _, sets in everyone):
        # A cell failed on some ranks before it came to what the others did.
        _process_sets = []


def rest() -> None:
    """Shut Horovod down, if it runs on this rank.

    A shutdown on one rank ends Horovod on all: call it when every rank has finished with it.
    """
    basics = _basics()
    if basics is not None:
        with _lock:
            _shut_down(basics)


def abandon() -> None:
    """Shut Horovod down from a thread of its own, so that ranks blocked in a collective get an error now.

    Never blocks: `shutdown` itself waits for a peer that is frozen.
    """
    basics = _basics()
    if basics is None:
        return
    generation = _generation

    def shut_down() -> None:
        with _lock:
            if _generation == generation:
                _shut_down(basics)

    threading.Thread(target=shut_down, name="jupyter_ddl Horovod shutdown", daemon=True).start()


def _init(_stock: Callable[..., None], basics: Any, comm: Any = None, process_sets: Any = None) -> None:
    """Stand in for `HorovodBasics.init`, so that what the user's call asks for takes effect.

    Stock `init` ignores its arguments, and HOROVOD_* variables set since, when Horovod already runs.
    """
    global _used, _communicator, _process_sets, _environment
    if _problem is not None:
        raise InvalidInput(
            "Every rank must have a Horovod that works, since they initialise it together.",
            _problem,
            "Run `jupyter ddl doctor`, which tells the remedy.",
        )
    late_variables.check()
    _used = True
    asks = comm is not None or process_sets is not None or _horovod_environment() != _environment
    if basics.is_initialized() and not asks:
        return
    if _on_subset:
        raise InvalidInput(
            "Horovod is initialised by all ranks together, and this cell runs on some of them.",
            "hvd.init() with new arguments or HOROVOD_* variables" if asks else "hvd.init()",
            "Run the cell that calls it on all ranks.",
        )
    if comm is not None or process_sets is not None:
        _communicator = _made_communicator(comm)
        _process_sets = [] if process_sets is None or isinstance(process_sets, str) else list(process_sets)
    with _lock:
        _shut_down(basics)
        _start(basics, _communicator, _process_sets if process_sets is None else process_sets)
    _environment = _horovod_environment()


def _made_communicator(comm: Any) -> Any:
    """Return what the user's `comm` means: a communicator of mpi4py's, or None for all ranks.

    Horovod gets no list of ranks from us: it would prefer that list to every communicator that it is given later.
    Source: horovod 0.28.1, horovod/common/mpi/mpi_context.cc, MPIContext::Initialize
    """
    if not isinstance(comm, Sequence):
        return comm
    if not comm:
        return None
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.rank not in comm:
        raise InvalidInput(
            "A rank must be in the communicator with which it initialises Horovod.",
            f"hvd.init(comm={list(comm)}) on rank {world.rank}",
            "Give each rank a list that it is in.",
        )
    return world.Create_group(world.Get_group().Incl(list(comm)))


def _shutdown(_stock: Callable[..., None], basics: Any) -> None:
    """Stand in for `HorovodBasics.shutdown`: the user has done with what the last `hvd.init` asked for."""
    global _communicator, _process_sets
    _communicator, _process_sets = None, []
    with _lock:
        _shut_down(basics)


def _add_process_set(stock: Callable[[Any], Any], process_set: Any) -> Any:
    added = stock(process_set)
    _process_sets.append(added)
    return added


def _remove_process_set(stock: Callable[[Any], bool], process_set: Any) -> bool:
    removed = stock(process_set)
    if removed:
        _process_sets[:] = [kept for kept in _process_sets if kept is not process_set]
    return removed


def _start(basics: Any, communicator: Any, process_sets: Any) -> None:
    """Initialise Horovod. The caller holds the lock."""
    global _generation, _had_communicator, _timeline
    assert _stock_init is not None, "load() comes first"
    _generation += 1
    _had_communicator |= communicator is not None
    if communicator is None and _had_communicator:
        # Horovod keeps the last one where it is given none.
        from mpi4py import MPI

        communicator = MPI.COMM_WORLD
    path = timeline_file.wanted()
    _timeline = None if path is None else _timelines.setdefault(path, TimelineFile(path))
    variables = {} if _STALL_CHECK in os.environ else dict(_stall)
    if _timeline is not None:
        variables[timeline_file.VARIABLE] = str(_timeline.part)
    with _environment_with(variables):
        _stock_init(basics, communicator, process_sets)
    if _timeline is not None and basics.rank() == 0:
        _timeline.begin()
    # Stock init registers one more shutdown at exit each time that it is called. At exit Horovod is at rest, or its
    # peers are gone and a shutdown would wait for them.
    atexit.unregister(basics.shutdown)


def _shut_down(basics: Any) -> None:
    """Shut Horovod down, if it runs. The caller holds the lock."""
    assert _stock_shutdown is not None, "load() comes first"
    _stock_shutdown(basics)
    if _timeline is not None:
        _timeline.join()


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
