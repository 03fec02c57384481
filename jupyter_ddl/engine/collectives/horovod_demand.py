"""Starts Horovod when a cell first needs it, where the cell began without.

A program that has called `hvd.init()` may call collectives in each later cell. Most cells call none, so Horovod stays
at rest until one is called, on any rank. Initialising takes all ranks together, and the others may be anywhere, or may
have ended the cell: so the rank asks the kernel, which has all ranks initialise Horovod beside what they do.

What needs Horovod is a collective of Python's (`MPI_LIB`), what Horovod's core is asked for, and a graph that
TensorFlow runs, for its operations may be Horovod's. Ranks and sizes are as they were, and need nothing.

Runs on: every rank. Nothing here imports Horovod or TensorFlow.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.collectives.horovod_operations import around_operations, unconverted_around
from jupyter_ddl.host.patching import Layer, patch, unpatched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A kernel that has gone meanwhile does not answer; one that has attached then does.
_ASK_AGAIN_S = 1.0
# What Horovod says of a rank's place, and what it does only while it runs.
# Source: horovod 0.28.1, horovod/common/basics.py
PLACES = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
CALLS = (
    *("is_homogeneous", "mpi_threads_supported", "start_timeline", "stop_timeline"),
    *("_add_process_set_impl", "_remove_process_set_impl", "_process_set_rank", "_process_set_size"),
    *("_get_process_set_ids_and_ranks", "_comm_process_set_id"),
)


class Start:
    """An initialisation of Horovod beside a cell.

    Attributes:
        run: in which a rank needs it.
        has_begun: this rank was asked for it.
        done: set when it has ended, well or not.
        generation: its number; 0 where there is none.
        has_rested: Horovod was shut down after it.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.has_begun = False
        self.has_rested = False
        self.done = threading.Event()
        self.generation = 0


class Starts:
    """The initialisations beside cells, by their runs.

    Attributes:
        latest: of them; before the first, one that has ended.
    """

    def __init__(self) -> None:
        self._by_run: dict[str, Start] = {}
        self.latest = Start("")
        self.latest.done.set()
        self.latest.has_rested = True

    def of(self, run: str) -> Start:
        """Return that of a run, which this rank may not have been asked for yet."""
        return self._by_run.setdefault(run, Start(run))


class Demand:
    """Whether Horovod rests in the present cell, and how it is started then.

    Args:
        is_as_before: returns whether the rank's place will be what it was when Horovod ran last.

    Attributes:
        run: the cell that runs, or ran last.
        rests: Horovod is started when the cell needs it.
        places: what Horovod said of the rank's place when it was initialised last.
    """

    def __init__(self, is_as_before: Callable[[], bool]) -> None:
        self.run = ""
        self.rests = False
        self.places: dict[str, int] = {}
        self._is_as_before = is_as_before
        self._ask: Callable[[str], None] | None = None
        # The thread that initialises Horovod, whose own functions ask its core meanwhile.
        self._starter = 0
        self._came = threading.Event()
        self._problem: Exception | None = None

    def begin(self, run: str, ask: Callable[[str], None] | None) -> None:
        """Note that a cell begins; with `ask`, which gets the run, one that may need Horovod, which is not running."""
        self.run, self._problem = run, None
        self._came.clear()
        # A thread of an earlier cell may still ask.
        self._ask = ask or self._ask
        self.rests = ask is not None

    def started(self, problem: Exception | None = None) -> None:
        """Note that Horovod runs, or why not."""
        self._problem = problem
        self.end()

    def end(self) -> None:
        """Start Horovod no more in this cell: it runs, the program has ended it, or the cell is over."""
        self.rests = False
        self._came.set()

    def need(self) -> None:
        """Wait until Horovod runs, where it rests.

        Raises:
            RuntimeError, ValueError: what initialising it raised on this rank.
        """
        if not self.rests or self._ask is None:
            return
        while True:
            self._ask(self.run)
            if self._came.wait(_ASK_AGAIN_S):
                break
        if self._problem is not None:
            raise self._problem

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Let this thread initialise Horovod in the block."""
        self._starter = threading.get_ident()
        try:
            yield
        finally:
            self._starter = 0

    def remember(self, basics: Any) -> None:
        """Keep the rank's place, as Horovod has just been initialised."""
        self.places = {name: unpatched(type(basics), name)(basics) for name in PLACES}

    def patch_core(self, core: type) -> None:
        """Patch HorovodBasics: it starts Horovod when it is asked for more than the rank's place."""
        patch(core, "is_initialized", self._is_initialized, Layer.RANK, unconverted_around)
        for name in PLACES:
            patch(core, name, self._place, Layer.RANK, unconverted_around)
        for name in CALLS:
            patch(core, name, self._before, Layer.RANK, unconverted_around)

    def patch_operations(self, module: Any) -> None:
        """Patch `horovod.tensorflow.mpi_ops` so that its operations start Horovod."""
        patch(module, "MPI_LIB", self._before, Layer.RANK, around_operations)

    def patch_graphs(self, context: Any, session: Any) -> None:
        """Patch TensorFlow's context and TensorFlow 1's session: a graph's operations may be Horovod's."""
        patch(context.Context, "call_function", self._before, Layer.RANK)
        patch(session.BaseSession, "run", self._before, Layer.RANK)

    def _is_initialized(self, stock: Callable[[Any], bool], basics: Any) -> bool:
        return self._is_missing() or stock(basics)

    def _place(self, stock: Callable[[Any], int], basics: Any) -> int:
        if self._is_missing():
            if self._is_as_before():
                return self.places[stock.__name__]
            self.need()
        return stock(basics)

    def _before(self, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._is_missing():
            self.need()
        return stock(*args, **kwargs)

    def _is_missing(self) -> bool:
        return self.rests and threading.get_ident() != self._starter
