"""Manages Horovod on one rank: loads it once, initialises it for a cell that needs it, shuts it down between cells.

A cell that names Horovod begins with it. In another cell of a program that has called `hvd.init()` it is initialised
when it is first needed (`horovod_demand`), in a thread beside the cell.

Its background thread spins inside Open MPI, a whole core for each idle rank, so it must not outlive the cell. Shutting
down and initialising again takes some milliseconds, since MPI itself stays initialised: mpi4py owns it. What the user's
own `hvd.init(comm, process_sets)` asked for holds in the next cell too (`horovod_settings`).

Runs on: every rank. Nothing here imports Horovod until `load` has.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.collectives import horovod_core, release_thread
from jupyter_ddl.engine.collectives.horovod_core import core_of, runs
from jupyter_ddl.engine.collectives.horovod_demand import Demand, Starts
from jupyter_ddl.engine.collectives.horovod_script import ScriptShutdown
from jupyter_ddl.engine.collectives.horovod_settings import InitSettings, environment_with
from jupyter_ddl.engine.timelines.timeline_file import Timelines
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.protocol.cell_options import STALL_CHECK, stall_check

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.engine.collectives.library import Turn
    from jupyter_ddl.engine.late_variables import LateVariables
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.events import CollectiveStalled

# In a cell on some of the ranks the others will never enter a collective of all, so Horovod's stall inspector may give
# up at once. Its defaults (a warning after 60 s, no shutdown) suit ranks that are merely late.
# Source: horovod 0.28.1, horovod/common/stall_inspector.cc
_SUBSET_STALL = {STALL_CHECK: "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2"}


class HorovodRuntime:
    """Horovod on this rank: its initialisations and shutdowns.

    Args:
        variables: those that a cell may have set too late.
    """

    def __init__(self, variables: LateVariables) -> None:
        self._variables = variables
        # Two threads that shut Horovod down at once would join its background thread twice, which is undefined.
        self._lock = threading.Lock()
        # Ranks of a cell on some of them may initialise it in turn, and others beside their cell.
        self._initialising = threading.Lock()
        self._stock_init: Callable[..., None] | None = None
        self._stock_shutdown: Callable[[Any], None] | None = None
        # Counts initialisations, so that a shutdown that was asked for under one cannot end the next.
        self._generation = 0
        self._settings = InitSettings()
        self._on_subset = False
        self._stall: dict[str, str] = {}
        self._problem: str | None = None
        self._used = False
        self._timelines = Timelines()
        self.demand = Demand(lambda: self._settings.communicator is None)
        self._starts = Starts()
        # The run that raised or was released last on this rank.
        self._ended = ""
        self._script_shutdown = ScriptShutdown()

    def watch(self) -> None:
        """Patch Horovod's `init` and the functions whose settings must survive a shutdown, once.

        Before anything imports horovod.tensorflow, which takes these functions over: every framework's `hvd.init` then
        comes through `_init`.

        Raises:
            ImportError: Horovod is not installed.
        """
        from horovod.common import process_sets
        from horovod.common.basics import HorovodBasics

        if self._stock_init is None:
            assert "horovod.tensorflow" not in sys.modules, "too late: it holds the stock functions"
            self._stock_init, self._stock_shutdown = HorovodBasics.init, HorovodBasics.shutdown
            import_hooks.when_imported("horovod.tensorflow.mpi_ops", self.demand.patch_operations)
        for owner, name, ours in (
            (HorovodBasics, "init", self._init),
            (HorovodBasics, "shutdown", self._shutdown),
            (process_sets, "add_process_set", self._settings.add_process_set),
            (process_sets, "remove_process_set", self._settings.remove_process_set),
        ):
            patch(owner, name, ours, Layer.RANK)
        self.demand.patch_core(HorovodBasics)

    def load(self) -> str:
        """Import Horovod for TensorFlow, after `watch`, and return its version.

        Raises:
            ImportError: it is not installed, or not built for this TensorFlow.
        """
        self.watch()
        import horovod.tensorflow
        from tensorflow.python.client import session
        from tensorflow.python.eager import context

        self.demand.patch_graphs(context, session)
        version: str = horovod.__version__
        return version

    def refuse(self, problem: str) -> None:
        """Make `hvd.init()` raise from now on: a rank has no Horovod, and the others would wait for it for ever."""
        self._problem = problem

    def is_used(self) -> bool:
        """Return whether the user's code has called `hvd.init()` on this rank."""
        return self._used

    def is_running(self) -> bool:
        """Return whether Horovod is initialised on this rank."""
        basics = core_of()
        return basics is not None and runs(basics)

    def was_ended_elsewhere(self, text: str) -> bool:
        """Return whether an error's text says that another rank has ended Horovod: the error is an effect of that.

        To be asked before this rank ends Horovod itself.
        """
        return horovod_core.says_ended_elsewhere(text)

    def has_given_up(self, text: str) -> bool:
        """Return whether an error's text says that Horovod has given up all collectives."""
        return horovod_core.says_shut_down(text)

    def with_known_ranks(self, stalled: CollectiveStalled, world: World) -> CollectiveStalled:
        """Return a stall without the missing ranks where these may be others than MPI's, or that is not known."""
        return horovod_core.with_known_ranks(stalled, world)

    def generation(self) -> int:
        """Return how often Horovod has been initialised on this rank."""
        return self._generation

    def begin_cell(self, turn: Turn) -> None:
        """Set what holds for the cell that begins: its stalls are found by Horovod's own inspector."""
        self._on_subset = turn.on_subset
        self._stall = stall_check(turn.stall_after_s)
        self._timelines.begin_cell(turn.timeline)
        core = core_of()
        self.demand.begin(turn.run, turn.ask if core is not None and not runs(core) else None)

    def end_cell(self) -> None:
        """Complete the timeline, if there is one, before the end of a cell is reported. Horovod keeps running."""
        self.demand.end()
        basics = core_of()
        if basics is not None and runs(basics):
            self._timelines.complete(basics.stop_timeline, self._lock)

    def initialise(self, communicator: Any, *, on_subset: bool) -> None:
        """Shut Horovod down if it runs, and initialise it as the user did last, and as the environment now says.

        Collective: every rank must call this.

        Args:
            communicator: of all ranks of the world, for our own messages.
            on_subset: the cell runs on some of the ranks only, so a collective of all ranks is an error at once.
        """
        basics = core_of()
        if basics is None:
            return
        with self._initialising, self.demand.starting():
            self._settings.agree(communicator)
            with self._lock, environment_with(_SUBSET_STALL if on_subset else {}):
                self._shut_down(basics)
                try:
                    self._start(basics, self._settings.process_sets)
                finally:
                    # Without it, a rank whose cell shuts Horovod down at once would end it for others that still set it
                    # up.
                    communicator.Barrier()
        self._settings.note_environment()
        self.demand.started()

    def start_beside(self, run: str, communicator: Any, *, on_subset: bool) -> None:
        """Initialise Horovod in a thread of its own, beside what the main thread does. Never blocks.

        Collective: every rank must call this, once for a run.

        Args:
            run: a rank needs Horovod in it.
            communicator: as of `initialise`.
            on_subset: as of `initialise`.
        """
        start = self._starts.of(run)
        if start.has_begun:
            return  # another kernel has asked, too
        start.has_begun = True
        self._starts.latest = start

        def initialise() -> None:
            try:
                self.initialise(communicator, on_subset=on_subset)
                start.generation = self._generation
                if self._ended == run:
                    # Its end came first: no rank may wait for this one.
                    self.rest(run)
            except (RuntimeError, ValueError) as error:
                self.demand.started(error)
            finally:
                start.done.set()

        threading.Thread(target=initialise, name="jupyter_ddl Horovod start", daemon=True).start()

    def rest(self, run: str = "", after: str = "") -> None:
        """Shut Horovod down, if it runs on this rank.

        A shutdown on one rank ends Horovod on all: call it when every rank has finished with it.

        Args:
            run: that has ended.
            after: a run whose `start_beside` all ranks were asked for: it ends first; "" for none.
        """
        if after:
            self._starts.of(after).done.wait()
        basics = core_of()
        if basics is None:
            return
        with self._lock:
            start = self._starts.latest
            if start.has_rested or start.run in (after, run):
                start.has_rested = True
                self._shut_down(basics)
            # Else other ranks have begun the next cell, and need Horovod there.

    def raised(self) -> None:
        """Shut Horovod down at once: other ranks may wait in a collective, and each cell initialises it anyway."""
        self.release()

    def entered(self) -> int | None:
        """Return None: each cell initialises Horovod again."""
        return None

    def release(self) -> None:
        """Shut Horovod down from a thread of its own, so that ranks blocked in a collective get an error now.

        Never blocks: `shutdown` itself waits for a peer that is frozen.
        """
        self._ended = self.demand.run
        self.demand.end()
        basics = core_of()
        if basics is None:
            return
        if self._stock_shutdown is None:
            self._script_shutdown.begin(basics)
            return
        generation, start = self._generation, self._starts.latest

        def shut_down() -> None:
            start.done.wait()
            with self._lock:
                if self._generation == max(generation, start.generation):
                    self._shut_down(basics)

        release_thread.begin(shut_down, "jupyter_ddl Horovod shutdown", daemon=True)

    def has_shut_down(self, within_s: float) -> bool:
        """Return whether the shutdown of a script has ended, or there was none; it waits where a peer is frozen."""
        return self._script_shutdown.has_ended(within_s)

    def _init(self, _stock: Callable[..., None], basics: Any, comm: Any = None, process_sets: Any = None) -> None:
        """Replace `HorovodBasics.init`, so that the arguments of the user's call take effect.

        When Horovod already runs, stock `init` ignores its arguments and HOROVOD_* variables that were set since.
        """
        if self._problem is not None:
            raise InvalidInput(
                "Every rank must have a Horovod that works, since they initialise it together.",
                self._problem,
                "Run `jupyter ddl doctor`, which names the remedy.",
            )
        self._variables.check()
        self._used = True
        with self._lock:
            # A start beside the cell sets variables of its own while it holds the lock.
            asks = self._settings.are_other(comm, process_sets)
        if not asks and (self.demand.rests or runs(basics)):
            return
        if self._on_subset:
            raise InvalidInput(
                "Horovod is initialised by all ranks together, and this cell runs on some of them.",
                "hvd.init() with new arguments or HOROVOD_* variables" if asks else "hvd.init()",
                "Run the cell that calls it on all ranks.",
            )
        self.demand.need()
        self._settings.take(comm, process_sets)
        with self._lock:
            self._shut_down(basics)
            self._start(basics, self._settings.process_sets if process_sets is None else process_sets)
        self._settings.note_environment()

    def _shutdown(self, _stock: Callable[..., None], basics: Any) -> None:
        """Replace `HorovodBasics.shutdown`: forget what the user's last `hvd.init` asked for."""
        # Where others wait in a collective it ends that, which takes a Horovod that runs.
        self.demand.need()
        self._settings.forget()
        with self._lock:
            self._shut_down(basics)

    def _start(self, basics: Any, process_sets: Any) -> None:
        """Initialise Horovod. The caller holds the lock."""
        assert self._stock_init is not None, "load() comes first"
        self._generation += 1
        stall = {} if STALL_CHECK in os.environ else self._stall
        with environment_with({**stall, **self._timelines.choose()}):
            self._stock_init(basics, self._settings.passed_communicator(), process_sets)
        self.demand.remember(basics)
        if self.demand.places["rank"] == 0:
            self._timelines.begin()
        # Stock init registers one more shutdown at exit each time that it is called. At exit Horovod is at rest, or its
        # peers are gone and a shutdown would wait for them.
        atexit.unregister(basics.shutdown)

    def _shut_down(self, basics: Any) -> None:
        """Shut Horovod down, if it runs. The caller holds the lock."""
        assert self._stock_shutdown is not None, "load() comes first"
        self._stock_shutdown(basics)
        self._timelines.join()
