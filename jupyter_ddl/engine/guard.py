"""Runs a cell on this rank so that it always ends: with its value, its own exception, or released.

A rank that raises says so to its libraries of collectives at once: what they end gives the ranks blocked in it an
error within milliseconds. A `Release` from the session ends all collectives, and raises KeyboardInterrupt in Python
code.

Runs on: every rank. `run` is called in the main thread, `release` in ipykernel's control thread.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager, nullcontext, suppress
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.cell_failure import CellFailure
from jupyter_ddl.engine.cells import Cell
from jupyter_ddl.engine.collectives.library import Turn
from jupyter_ddl.engine.error_text import text_of
from jupyter_ddl.engine.failure_memory import let_go_of_the_failure
from jupyter_ddl.engine.interrupts import Interrupts
from jupyter_ddl.engine.last_resort import LastResort
from jupyter_ddl.engine.notebook_lines import NotebookLines
from jupyter_ddl.engine.timelines.timeline_file import recorded
from jupyter_ddl.protocol.events import RankFinished
from jupyter_ddl.protocol.rank_files import STEPS, TIMELINE
from jupyter_ddl.protocol.requests import HorovodAsked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

    from jupyter_ddl.engine.capture import Capture
    from jupyter_ddl.engine.debugging.rank_debugger import RankDebugger
    from jupyter_ddl.engine.display import Outlet
    from jupyter_ddl.engine.emitter import Emitter
    from jupyter_ddl.engine.event_log import Journal
    from jupyter_ddl.engine.fatal_exit import Leaving
    from jupyter_ddl.engine.preload import Warmup
    from jupyter_ddl.engine.rank_shell import RankShell
    from jupyter_ddl.engine.rank_state import RankState
    from jupyter_ddl.engine.sampler import Sampler
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.errors import InvalidInput
    from jupyter_ddl.protocol.requests import Release, RunCell


class Guard:
    """Runs cells on one rank, one at a time.

    Attributes:
        names: what each cell finds in its namespace, and its value: `rank`, `local_rank` and `world_size`.
    """

    def __init__(
        self,
        shell: RankShell,
        world: World,
        state: RankState,
        emit: Journal,
        emitter: Emitter,
        capture: Capture,
        outlet: Outlet,
        sampler: Sampler,
        warmup: Warmup,
        leaving: Leaving,
        debugger: RankDebugger,
    ) -> None:
        self._shell = shell
        self._world = world
        self._state = state
        self._emit = emit
        self._emitter = emitter
        # Is set when the report of the cell's end has left; None where nothing says so.
        self._report_has_left: Event | None = None
        self._capture = capture
        self._outlet = outlet
        self._sampler = sampler
        self._warmup = warmup
        self._debugger = debugger
        self._last_resort = LastResort(shell.kernel, world, emit, capture, leaving)
        self.names = {"rank": world.rank, "local_rank": world.local_rank, "world_size": world.world_size}
        shell.user_ns.update(self.names)
        # Held while a run becomes the current one: a release of the last one ends nothing of it.
        self._beginning = Lock()
        self._ended_collectives_of = ""
        self._interrupts = Interrupts(shell.user_ns)
        self._failure = CellFailure(shell, world, state, emit, outlet, self._interrupts)
        self._lines = NotebookLines(shell)
        shell.when_raised = self._failure.note

    async def run(self, request: RunCell) -> None:
        """Run a cell to its end, whatever that is, and send RankFinished or RankFailed."""
        self._report_has_left = None
        try:
            self._last_resort.begin()
            # The output of a thread that an earlier cell left behind is still that cell's.
            self._capture.drain()
            self._emit.begin(request.run, request.log_dir)
            self._begin(request)
            self._debugger.begin(request.run)
            self._shell.traceback_lines, self._shell.captured_error = [], None
            failed = await self._run(request)
        except BaseException as error:  # noqa: BLE001  whatever a cell has left behind, the session waits for its report
            self._report_has_left = None
            self._interrupts.disarm()
            self._interrupts.end(request.run)
            self._last_resort.report(
                request.run, error, tuple(self._shell.traceback_lines), self._failure.let_others_go
            )
            self._capture.flush_streams()
            failed = True
        if failed:
            let_go_of_the_failure(self._shell)
        self._last_resort.confirm(self._report_has_left)

    async def _run(self, request: RunCell) -> bool:
        """Run a cell and report how it ended; return whether it failed."""
        error = await self._outcome(request)
        self._last_resort.end_if_child(error, self._shell.traceback_lines)
        self._state.cells.end(failed=error is not None)
        reason = self._interrupts.end(request.run)
        if error is not None:
            self._failure.let_others_go()
        else:
            self._state.collectives.end_cell()
        self._sampler.end()
        with self._emitter.together() as self._report_has_left:
            self._capture.drain()
            self._emit(self._finished(request) if error is None else self._failure.report(request, error, reason))
        return error is not None

    def release(self, request: Release) -> None:
        """End the run, wherever it is: Python code by KeyboardInterrupt, a blocked collective by its library's end.

        A rank that has ended the run is asked too: others may wait in a collective with it.
        """
        run = request.run or self._interrupts.armed or self._outlet.run
        self._debugger.let_go()
        is_on = self._interrupts.request(run, request.reason)
        with self._beginning:
            if self._outlet.run == run and (is_on or request.run):
                self._end_collectives(run)

    def _begin(self, request: RunCell) -> None:
        """Make a run the current one, after the end of the collectives of the one before, where that was released."""
        with self._beginning:
            if request.released and self._outlet.run == request.released != self._ended_collectives_of:
                self._end_collectives(request.released)
            self._outlet.run = request.run

    def _end_collectives(self, run: str) -> None:
        self._ended_collectives_of = run
        with suppress(RuntimeError):
            self._state.collectives.release()

    @property
    def interrupted(self) -> str | None:
        """The run in whose code a KeyboardInterrupt was raised last."""
        return self._interrupts.raised

    @contextmanager
    def interruptible(self, run: str) -> Iterator[list[str]]:
        """Let a release of `run`, which is no cell, raise KeyboardInterrupt in the block. Runs in the main thread.

        Yields:
            The reason of the release, after the block; nothing where there was none.
        """
        reasons: list[str] = []
        try:
            self._interrupts.arm(run)
            yield reasons
        finally:
            self._interrupts.disarm()
            reason = self._interrupts.end(run)
            reasons += [] if reason is None else [reason]

    def task(self) -> asyncio.Task[Any] | None:
        """Return the task of a cell that awaits; None where none does."""
        return self._interrupts.task

    def prepare(self, *, on_subset: bool) -> None:
        """Start the library that rests, where this world has it. Collective: every rank must call this."""
        self._warmup.done.wait()
        if self._warmup.report is not None and self._warmup.report.problem is None:
            self._state.collectives.resting.initialise(self._world.communicator, on_subset=on_subset)

    async def _outcome(self, request: RunCell) -> BaseException | None:
        """Return what the cell raised, or None."""
        self._failure.begin()
        self._state.variables.snapshot()
        late: InvalidInput | None = None
        # A profiler may start first.
        with self._capture.starting() if request.options.timeline else nullcontext():
            self._state.collectives.begin_cell(self._turn(request))
        self._state.cells.begin(Cell(len(request.ranks), request.options))
        try:
            try:
                result = await self._execute(request)
            finally:
                self._interrupts.disarm()
                late = self._state.variables.put_back()
            if result.success and late is not None:
                raise late
        except (Exception, KeyboardInterrupt, asyncio.CancelledError) as error:  # noqa: BLE001  the cell must end with it
            # Raised outside the cell's own code, whose exceptions IPython keeps in `result`: a release between steps,
            # the start of a library, an import that distributes a cell, a variable set too late, no more threads.
            self._interrupts.disarm()
            self._last_resort.put_back(request.run)
            self._shell.traceback_lines = self._shell.traceback_lines or [f"{type(error).__name__}: {text_of(error)}"]
            return error
        problem: BaseException | None = result.error_before_exec or result.error_in_exec
        # The task of a cell that awaited holds its result for as long as this one runs, which it woke.
        result.error_before_exec = result.error_in_exec = None
        return problem

    def _turn(self, request: RunCell) -> Turn:
        return Turn(
            request.run,
            request.is_on_subset(self._world.world_size),
            self._stall_after_s(request),
            recorded(self._world.rank, TIMELINE, request.log_dir, request.options),
            self._emit,
            self._ask_for_start if request.horovod_rests else None,
        )

    async def _execute(self, request: RunCell) -> Any:
        """Run a cell's code with all that belongs to a cell; return IPython's result."""
        options = request.options
        steps = recorded(self._world.rank, STEPS, request.log_dir, options)
        self._sampler.begin(request.run, options.sample_every_s, steps)
        if request.horovod:
            self._begin_capture(request)
            # All ranks or none: one that was released already must not leave the others waiting in it.
            self.prepare(on_subset=request.is_on_subset(self._world.world_size))
            self._interrupts.arm(request.run)
        else:
            self._interrupts.arm(request.run)
            self._begin_capture(request)
        self._state.cells.prepare()
        self._set_names()
        code = self._lines.placed(request.code, options.above, options.count)
        with self._debugger.tracing():
            result = await self._run_cell(code)
        if result.success:
            self._state.cells.conclude()
        self._capture.flush_streams()
        self._last_resort.put_back(request.run)
        return result

    def _set_names(self) -> None:
        """Restore the rank's names for the cell, where an earlier one deleted them (`%reset -f`, `del rank`)."""
        names = self._shell.user_ns
        if "_oh" not in names:
            # `globals().clear()`: IPython's own are gone too.
            self._shell.init_user_ns()
        for name, value in self.names.items():
            names.setdefault(name, value)

    def _stall_after_s(self, request: RunCell) -> float | None:
        """Return how soon a stall is reported; on a subset, a collective of all ranks fails at once."""
        return None if request.is_on_subset(self._world.world_size) else request.options.stalls.after_s

    def _ask_for_start(self, run: str) -> None:
        """Ask the kernel to have all ranks start the library that rests, beside what they do."""
        self._emit.announce(HorovodAsked(run, self._world.rank))

    def _begin_capture(self, request: RunCell) -> None:
        if request.horovod or self._warmup.is_needed_by(request.code):
            # It would wait for the imports anyway; what they print meanwhile is not the cell's.
            self._warmup.done.wait()
        is_starting = not self._warmup.done.is_set()
        self._capture.begin(request.run, is_starting=is_starting, tells_stalls=self._stall_after_s(request) is not None)

    async def _run_cell(self, code: str) -> Any:
        """Run code as IPython does: at once, unless it awaits something."""
        shell = self._shell
        try:
            transformed, problem = shell.transform_cell(code), None
        except Exception:  # noqa: BLE001  what an input transformer raises is the cell's error: IPython reports it
            transformed, problem = code, sys.exc_info()
        if not shell.should_run_async(code, transformed_cell=transformed, preprocessing_exc_tuple=problem):
            shell.transformed = None if problem else (code, transformed)
            result = shell.run_cell(code, store_history=True)
            # Other ranks may wait for one that raised in %%capture, too.
            result.error_in_exec, shell.captured_error = result.error_in_exec or shell.captured_error, None
            return result
        task = asyncio.ensure_future(
            shell.run_cell_async(
                code, store_history=True, transformed_cell=transformed, preprocessing_exc_tuple=problem
            )
        )
        self._interrupts.task = task
        try:
            result = await task
        finally:
            self._interrupts.task = None
        shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", result)
        return result

    def _finished(self, request: RunCell) -> RankFinished:
        return RankFinished(
            request.run,
            self._world.rank,
            time(),
            uses_horovod=self._state.collectives.resting.is_used(),
            horovod_runs=self._state.collectives.resting.is_running(),
            entered=self._state.collectives.entered(),
        )
