"""Follows one run to its end: shows its events, and makes sure that it ends.

The rules: a rank that raised releases the others after a grace time; an interrupt, a timeout or a request from
elsewhere releases all; a rank that does not answer its release is reported, step by step, and then all ranks are ended
and replaced. Where ranks are not to be replaced, the cell gives such a rank up, and the next cell works once it has
answered. What only shows or counts may fail: that is reported once, and the run is followed to its end.

Runs on: kernel.
"""

from __future__ import annotations

import contextvars
import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.kernel.checkpoint_offer import checkpoint_folders
from jupyter_ddl.kernel.run_release import RunRelease
from jupyter_ddl.kernel.run_result import Circumstances, conclude, fault_of
from jupyter_ddl.kernel.run_views import Notes
from jupyter_ddl.kernel.wall_time import WallTimeWarnings
from jupyter_ddl.protocol.events import RankFailed, RankFinished, RankHeld, RunFinished
from jupyter_ddl.protocol.rank_life import RankSilent
from jupyter_ddl.runs.unseen import last_words

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.kernel.stall_watch import StallWatch
    from jupyter_ddl.protocol.events import Event, Outcome
    from jupyter_ddl.runs.run import Run, RunResult
    from jupyter_ddl.views.view import View

_TICK_S = 0.1
# Of more ranks the first are named.
_NAMED_RANKS = 8


class Follower:
    """Follows one run, and shows it in its view.

    Args:
        run: the run.
        runs: the cluster's active runs, of which it is one.
        view: what shows it, or None.
        timeout_s: how long it may take, or None.
        finished: called when the run has ended well, or None.
        stalls: watches it for stalls, or None.
    """

    def __init__(
        self,
        run: Run,
        runs: ActiveRuns,
        view: View | None,
        timeout_s: float | None,
        finished: Callable[[], None] | None = None,
        stalls: StallWatch | None = None,
    ) -> None:
        self.run = run
        self._runs = runs
        self._finished = finished
        self._notes = Notes(run, view)
        self._view = self._notes.view
        self._timeout_s = timeout_s
        self._stalls = stalls
        self._release = RunRelease(run, runs, self._notes)
        self._wall_time = WallTimeWarnings(runs.wall_time, lambda: next(iter(checkpoint_folders([run])), None))
        self._outcome: Outcome = "finished"
        self._thread: threading.Thread | None = None
        runs.follow(run, self.release)

    def wait(self) -> RunResult:
        """Follow the run in this thread to its end; return its result.

        Raises:
            RankError, RunTimedOut, RunInterrupted, ClusterLost, ClusterError: as `Session.run` says.
        """
        if self._thread is not None:
            with interrupts_noted() as interrupted:
                while self._thread.is_alive():
                    self._thread.join(_TICK_S)
                    if interrupted.came:
                        interrupted.came = False
                        self.interrupt()
        else:
            self._follow()
        return self._conclude()

    def follow_in_background(self) -> None:
        """Follow the run in a thread of its own; `wait` then waits for that."""
        # In a copy of the cell's context, by which ipykernel knows under which cell to show output.
        context = contextvars.copy_context()
        # Where it raises, `wait` finds that in the run: its ranks were released.
        thread = Supervised(context.run, self.run.id, lambda _: None, (self._follow,))
        try:
            thread.start()
        except HostUnfit:
            # The ranks run it already, and it must be followed.
            self.interrupt()
            self._follow()
            raise
        self._thread = thread

    def interrupt(self) -> None:
        """Release the run's ranks. Safe from any thread."""
        self._let_go("interrupted", "interrupted")

    def release(self, reason: str) -> None:
        """Release the run's ranks on a request from elsewhere. Safe from any thread.

        Args:
            reason: what asked for it, e.g. "the panel"; the ranks' reports name it.
        """
        self._release.by = reason
        self._release.begin(reason)

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self.run.is_over

    def _follow(self) -> None:
        with interrupts_noted() as interrupted:
            try:
                while not self.run.is_over and not (self._release.is_given_up and not self._runs.replaces_lost):
                    self._step()
                    if interrupted.came:
                        interrupted.came = False
                        self._let_go("interrupted", "interrupted")
            except BaseException as error:
                # The last line of defence: ranks whose run is not followed would block the next cell.
                self._let_go("failed", f"following the run raised {described(error)}")
                raise
            finally:
                self._finish()
            if interrupted.came and self._outcome == "finished":
                # It came when the ranks had just ended: the cell must raise all the same, or the next one would run.
                self._outcome = "interrupted"
            interrupted.came = False

    def _step(self) -> None:
        event = self.run.next_event(_TICK_S)
        if event is not None:
            self._take(event)
        self._notes.tell_of_the_record()
        now_s = self.run.clock.now_s()
        self._view.tick(now_s)
        self._note_stall(now_s)
        warning = self._wall_time.due()
        if warning is not None:
            self._notes.tell(warning)
        self._check_deadlines(now_s)

    def _take(self, event: Event) -> None:
        with self._notes.guarded("what a rank reported"):
            self.run.handle(event)
        if isinstance(event, RankSilent):
            self._notes.tell_of_silence(event)
        else:
            self._view.handle(event)
        if self._stalls is not None:
            with self._notes.guarded("the stall watch"):
                self._stalls.handle(event)
            note = self._stalls.take_note()
            if note is not None:
                self._notes.tell(note)
        if isinstance(event, RankFinished | RankFailed | RankHeld):
            self._runs.notify()

    def _note_stall(self, now_s: float) -> None:
        """Have the panel show a stall while it lasts."""
        stall = self._stalls.standing(now_s) if self._stalls is not None else None
        if stall != self.run.stall:
            self.run.stall = stall
            self._runs.notify()

    def _check_deadlines(self, now_s: float) -> None:
        run, release = self.run, self._release
        if run.is_over:
            return
        if release.policy.is_released:
            release.check(now_s, self._outcome)
        elif self._timeout_s is not None and run.seconds > self._timeout_s:
            self._let_go("timed out", f"the timeout of {self._timeout_s:g} s passed")
        elif self._stalls is not None and self._stalls.aborts:
            self._let_go("stalled", "the cell stalled")
        elif (first := self._first_that_raised()) is not None:
            # One that has raised and not reported reads its exception's text, for which it has longer.
            ending = not run.causes() or run.pending <= run.raised
            if release.policy.grace_is_over(now_s, ending=ending):
                self._let_go(self._outcome_of_failures(), f"rank {first} raised")

    def _first_that_raised(self) -> int | None:
        causes = self.run.causes()
        return causes[0].rank if causes else min(self.run.raised, default=None)

    def _let_go(self, outcome: Outcome, reason: str) -> None:
        self._outcome = outcome
        self._release.reasons.add(reason)
        self._release.begin(reason)

    def _finish(self) -> None:
        """Record and show the run's end. Each part is guarded: the run must be removed from the active ones."""
        run, guarded = self.run, self._notes.guarded
        if run.lost is not None:
            self._outcome = "lost"
            with guarded("the search for what a lost rank printed last"):
                self._runs.bring_last_files(run)
                self._show_last_words()
        elif run.causes() and self._outcome in ("finished", "failed"):
            # Also where it is "failed" already: the ranks that failed first may not have known why.
            self._outcome = self._outcome_of_failures()
        elif run.pending and self._outcome == "finished":
            # Given up after a release from elsewhere.
            self._outcome = "interrupted"
        if run.is_apart and run.lost is None and not self._release.policy.is_released:
            with guarded("the end of the ranks' groups"):
                self._end_groups()
        with guarded("the cause of the run's end"):
            run.fault = fault_of(run, self._outcome, self._circumstances(), time.time())
        finished = RunFinished(run.id, self._outcome, run.seconds, run.fault)
        figures: dict[str, Any] = {}
        with guarded("the sum of the run's figures"):
            figures = run.summary.fields()
        with guarded("the record of the run"):
            run.recorder.handle(finished)
        with guarded("the record of the run"):
            run.folder.end(finished, figures)
        self._notes.tell_of_the_record()
        self._view.handle(finished)
        self._view.flush()
        with guarded("the end of the run"):
            self._runs.end(run)
        if self._outcome == "finished" and self._finished is not None:
            self._finished()

    def _end_groups(self) -> None:
        """End process groups whose ranks are apart: their next collective would hang, or take another one's data."""
        run = self.run
        counts = ", ".join(f"rank {rank}: {count}" for rank, count in sorted(run.entered.items())[:_NAMED_RANKS])
        self._runs.release(run, "the ranks are apart")
        self._notes.tell(
            f"the ranks have entered different numbers of collectives ({counts}), so their process groups were ended: "
            "call init_process_group() again"
        )

    def _outcome_of_failures(self) -> Outcome:
        return "failed" if self._reason_elsewhere() is None else "interrupted"

    def _reason_elsewhere(self) -> str | None:
        """Return the reason of the release from elsewhere that ended the ranks; None where none did."""
        return next((reason for reason in self.run.reasons() if reason not in self._release.reasons), None)

    def _show_last_words(self) -> None:
        run = self.run
        for chunk in last_words(run.folder.path, run.id, run.seen_bytes, sorted(run.pending)):
            run.recorder.handle(chunk)
            run.handle(chunk)
            self._view.handle(chunk)

    def _circumstances(self) -> Circumstances:
        return Circumstances(
            remedy=self._runs.remedy,
            elsewhere=self._reason_elsewhere(),
            timeout_s=self._timeout_s,
            stall=None if self._stalls is None else self._stalls.fault,
            answer_s=self._release.policy.times.answer_s,
        )

    def _conclude(self) -> RunResult:
        # An interrupt may have come, or the ranks may have been lost, when they had just ended.
        fault = self.run.fault or fault_of(self.run, self._outcome, self._circumstances(), time.time())
        return conclude(self.run, self._outcome, fault)
