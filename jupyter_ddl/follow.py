"""Follows one run to its end: shows its events, and sees to it that it has an end.

The rules: a rank that raised releases the others after a grace time; an interrupt or a timeout releases all; a rank
that does not answer its release is named, step by step, and then all ranks are ended and replaced. Where ranks are not
to be replaced, the cell gives such a rank up, and the next one works once it has answered.

Runs on: kernel.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from typing import TYPE_CHECKING

from jupyter_ddl import changes
from jupyter_ddl.errors import ClusterError, ClusterLost, RankError, RunInterrupted, RunStalled, RunTimedOut
from jupyter_ddl.events import OutputChunk, RankFailed, RankFinished, RankSilent, RunFinished
from jupyter_ddl.interruption import interrupts_noted
from jupyter_ddl.loss import describe_loss
from jupyter_ddl.patience import Patience
from jupyter_ddl.ranks import compact
from jupyter_ddl.runs.unseen import last_words
from jupyter_ddl.views.failure import render_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.active_runs import ActiveRuns
    from jupyter_ddl.events import Outcome, RankLost
    from jupyter_ddl.runs.run import Run, RunResult
    from jupyter_ddl.stall_watch import StallWatch
    from jupyter_ddl.views import View

# Ranks in a collective get Horovod's error at once; those busy elsewhere may be about to end by themselves.
GRACE_S = 0.5
# A rank that has not answered its release by then is stuck outside Python and Horovod, or does not let itself be
# interrupted.
ANSWER_S = 15.0
# One that says that its Python code was interrupted has longer: it may have much to tidy up.
UNWIND_S = 25.0
# One that is still importing TensorFlow, which cannot be interrupted, has until then; the others' time begins after it.
IMPORT_S = 120.0
# What is known of ranks that have not answered is told after this time.
_TOLD_S = 5.0
_ASK_S = 1.0
_TICK_S = 0.1
_HOW = {"interrupted": "was interrupted", "timed out": "timed out", "stalled": "stalled", "failed": "failed"}
# Of what a rank printed, where its end is explained.
_LAST_CHARACTERS = 4000


class Follower:
    """One run, its view, and what must still happen to it.

    Args:
        runs: the cluster's runs that go on, of which it is one.
        view: what shows it, or None.
        timeout_s: how long it may take, or None.
        finished: called when the run has finished well, or None.
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
        self._view = view
        self._timeout_s = timeout_s
        self._stalls = stalls
        self._release_due_s: float | None = None
        self._released_s: float | None = None
        self._reasons: set[str] = set()
        self._patience: Patience | None = None
        self._asked_s = 0.0
        self._is_stuck_told = False
        self._outcome: Outcome = "finished"
        self._thread: threading.Thread | None = None
        self._is_told = False

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
        self._thread = threading.Thread(target=context.run, args=(self._follow,), name=self.run.id, daemon=True)
        self._thread.start()

    def interrupt(self) -> None:
        """Release the run's ranks. Safe from any thread."""
        self._let_go("interrupted", "interrupted")

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self.run.is_over

    def _follow(self) -> None:
        with interrupts_noted() as interrupted:
            try:
                while not self.run.is_over and not (self._is_given_up() and not self._runs.replaces_lost):
                    self._step()
                    if interrupted.came:
                        interrupted.came = False
                        self._let_go("interrupted", "interrupted")
            finally:
                self._finish()
            if interrupted.came and self._outcome == "finished":
                # It came when the ranks had just ended: what is run next must not go on as if it had not come.
                self._outcome = "interrupted"
            interrupted.came = False

    def _step(self) -> None:
        run = self.run
        try:
            # Blocks in C with the GIL free.
            event = run.events.get(timeout=_TICK_S)
        except queue.Empty:
            event = None
        if event is not None:
            run.handle(event)
            if isinstance(event, RankSilent):
                self._tell_of_silence(event)
            elif self._view is not None:
                self._view.handle(event)
            if self._stalls is not None:
                self._stalls.handle(event)
            if isinstance(event, RankFinished | RankFailed):
                changes.tell()
        self._tell_of_the_record()
        now_s = time.monotonic()
        if self._view is not None:
            self._view.tick(now_s)
        self._check_deadlines(now_s)

    def _tell_of_the_record(self) -> None:
        """Tell, once, that the run's folder cannot be written: the run goes on."""
        problem = self.run.recorder.problem
        if problem is None or self._is_told or self._view is None:
            return
        self._is_told = True
        self._tell(f"this run is not recorded any more: {problem}")

    def _tell(self, text: str) -> None:
        """Show a line of ours under the cell."""
        if self._view is not None:
            self._view.handle(OutputChunk(self.run.id, self.run.ranks[0], "stderr", f"jupyter_ddl: {text}\n"))

    def _tell_of_silence(self, event: RankSilent) -> None:
        if event.is_back:
            self._tell(f"rank {event.rank} is back after {event.seconds:.0f} s")
        else:
            self._tell(f"rank {event.rank} has not answered for {event.seconds:.0f} s: {event.state}")

    def _check_deadlines(self, now_s: float) -> None:
        run = self.run
        if run.is_over:
            return
        if self._released_s is not None and self._patience is not None:
            self._patience.tick(now_s)
            self._check_release(now_s, now_s - self._released_s)
        elif self._timeout_s is not None and run.seconds > self._timeout_s:
            self._let_go("timed out", f"the timeout of {self._timeout_s:g} s passed")
        elif self._stalls is not None and self._stalls.aborts:
            self._let_go("stalled", "the cell stalled")
        elif causes := run.causes():
            if self._release_due_s is None:
                self._release_due_s = now_s + GRACE_S
            elif now_s >= self._release_due_s:
                self._let_go(self._outcome_of_failures(), f"rank {causes[0].rank} raised")

    def _let_go(self, outcome: Outcome, reason: str) -> None:
        self._outcome = outcome
        self._reasons.add(reason)
        if self._released_s is None:
            self._released_s = time.monotonic()
            self._patience = Patience(lambda: self._runs.starve(self.run), self._released_s)
        self._runs.release(self.run, reason)

    def _check_release(self, now_s: float, since_s: float) -> None:
        """See to it that ranks answer their release, and say what is known of those that do not."""
        if since_s > _ASK_S and now_s - self._asked_s > _ASK_S:
            self._asked_s = now_s
            self._runs.ask(self.run)
        if since_s < IMPORT_S and self._runs.importing(self.run) and self._patience is not None:
            self._patience.renew()
        if since_s > _TOLD_S and not self._is_stuck_told:
            self._is_stuck_told = True
            for rank in sorted(self.run.pending):
                self._tell(f"rank {rank} has not answered its release for {_TOLD_S:g} s: {self._why(rank)}")
        if self._is_given_up() and self._runs.replaces_lost:
            self._tell(f"{self._who()} did not answer in time: all ranks are ended")
            self._runs.give_up(
                f"the cell {_HOW[self._outcome]}, and {self._who()} did not answer the release within {since_s:.0f} s: "
                + "; ".join(f"rank {rank}: {self._why(rank)}" for rank in sorted(self.run.pending))
            )

    def _why(self, rank: int) -> str:
        """Return what is known of a rank that does not answer its release."""
        if rank in self._runs.importing(self.run):
            return "it is still importing TensorFlow, which nothing can interrupt"
        if rank in self.run.unwinding:
            return "its code was interrupted, and has not ended yet"
        return self._runs.state_of(rank)

    def _who(self) -> str:
        stuck = sorted(self.run.pending)
        return f"rank{'s' if len(stuck) > 1 else ''} {compact(stuck)}"

    def _is_given_up(self) -> bool:
        if self._patience is None:
            return False
        return self._patience.used_s > (ANSWER_S if self.run.pending - self.run.unwinding else UNWIND_S)

    def _finish(self) -> None:
        run = self.run
        if run.lost is not None:
            self._outcome = "lost"
            self._show_last_words()
        elif run.causes() and self._outcome in ("finished", "failed"):
            # Also where ranks failed first of which none knew why.
            self._outcome = self._outcome_of_failures()
        finished = RunFinished(run.id, self._outcome, run.seconds)
        run.recorder.handle(finished)
        run.folder.update(outcome=self._outcome, seconds=round(run.seconds, 4), **run.summary.fields())
        self._tell_of_the_record()
        if self._view is not None:
            self._view.handle(finished)
            self._view.flush()
        self._runs.end(run)
        if self._outcome == "finished" and self._finished is not None:
            self._finished()

    def _outcome_of_failures(self) -> Outcome:
        return "failed" if self._reason_elsewhere() is None else "interrupted"

    def _reason_elsewhere(self) -> str | None:
        """Return by what other release than this follower's the ranks ended; None where by none."""
        return next((reason for reason in self.run.reasons() if reason not in self._reasons), None)

    def _show_last_words(self) -> None:
        run = self.run
        for chunk in last_words(run.folder.path, run.id, run.seen_bytes, sorted(run.pending)):
            run.recorder.handle(chunk)
            run.handle(chunk)
            if self._view is not None:
                self._view.handle(chunk)

    def _describe_loss(self, lost: RankLost) -> str:
        result = None if lost.rank is None else self.run.results.get(lost.rank)
        if result is None or lost.rank is None:
            return describe_loss(lost)
        printed = (result.stderr or result.stdout)[-_LAST_CHARACTERS:].splitlines()
        return describe_loss(lost, self.run.last_samples.get(lost.rank), printed)

    def _conclude(self) -> RunResult:
        run = self.run
        causes = run.causes()
        if run.lost is not None:
            raised = f"\n\n{render_failure(RankError(causes, (), run.world_size))}" if causes else ""
            raise ClusterLost(
                f"Ranks must live to the end of the cell. Received: {self._describe_loss(run.lost)}\n"
                f"{self._runs.remedy} Logs: {run.folder.path}{raised}"
            )
        if run.pending:
            raise ClusterError(
                f"Every rank must answer its release within {ANSWER_S:g} s. Received: nothing from ranks "
                f"{compact(sorted(run.pending))} ({self._outcome}). They are blocked outside Python and Horovod: "
                f"the next cell works once they have answered, and %ddl restart starts new ones. "
                f"Logs: {run.folder.path}"
            )
        if self._outcome == "interrupted":
            by = "" if (reason := self._reason_elsewhere()) is None else f" by {reason}"
            raise RunInterrupted(
                f"The cell was interrupted{by} after {run.seconds:.1f} s, and its ranks were released."
            )
        if self._outcome == "stalled" and self._stalls is not None:
            raise RunStalled(f"{self._stalls.report}\nThe ranks were released, as --on-stall abort says.")
        if self._outcome == "timed out":
            raise RunTimedOut(
                f"The cell must end within its timeout. Received: --timeout {self._timeout_s:g}, and ranks still "
                f"at it. They were released. Pass a longer one, or none."
            )
        if causes:
            error = RankError(causes, run.released(), run.world_size)
            error.report = render_failure(error)
            raise error
        return run.result(self._outcome)
