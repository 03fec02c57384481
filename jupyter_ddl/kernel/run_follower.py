"""Follows one run to its end: shows its events, and sees to it that it has an end.

The rules: a rank that raised releases the others after a grace time; an interrupt or a timeout releases all, and so
does whoever else asks for it; a rank that does not answer its release is named, step by step, and then all ranks are
ended and replaced. Where ranks are not to be replaced, the cell gives such a rank up, and the next one works once it
has answered. What only shows or counts may fail: that is said once, and the run is followed on.

Runs on: kernel.
"""

from __future__ import annotations

import contextvars
import queue
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import (
    HostUnfit,
)
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.host.threads import Supervised, described, print_error
from jupyter_ddl.kernel.release_policy import Patience
from jupyter_ddl.kernel.run_result import Circumstances, conclude, fault_of
from jupyter_ddl.kernel.run_views import Isolated
from jupyter_ddl.protocol.events import OutputChunk, RankFailed, RankFinished, RankSilent, RunFinished
from jupyter_ddl.protocol.faults import Facts, Fault, RankProcess
from jupyter_ddl.protocol.rank_sets import named
from jupyter_ddl.runs.unseen import last_words
from jupyter_ddl.views.fault import headline, render_process

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.kernel.stall_watch import StallWatch
    from jupyter_ddl.protocol.events import Event, Outcome
    from jupyter_ddl.runs.run import Run, RunResult
    from jupyter_ddl.views.view import View

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
        self._view = Isolated(view, self._tell)
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
        self._released_by: str | None = None
        self._problems: set[str] = set()
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
        # What it raises, `wait` finds in the run: its ranks were released.
        thread = Supervised(context.run, self.run.id, lambda _: None, (self._follow,))
        try:
            thread.start()
        except HostUnfit:
            # The ranks are at it already, and must not be left alone.
            self.interrupt()
            self._follow()
            raise
        self._thread = thread

    def interrupt(self) -> None:
        """Release the run's ranks. Safe from any thread."""
        self._let_go("interrupted", "interrupted")

    def release(self, reason: str) -> None:
        """Release the run's ranks, as `interrupt` does, for another than this cell's user. Safe from any thread.

        Args:
            reason: what asked for it, e.g. "the panel"; the ranks' reports say it.
        """
        self._released_by = reason
        self._begin_release(reason)

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
            except BaseException as error:
                # The last line of defence: ranks that run on with nobody following would block the next cell.
                self._let_go("failed", f"following the run raised {described(error)}")
                raise
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
            self._take(event)
        self._tell_of_the_record()
        now_s = time.monotonic()
        self._view.tick(now_s)
        self._note_stall(now_s)
        self._check_deadlines(now_s)

    def _take(self, event: Event) -> None:
        with self._going_on("what a rank reported"):
            self.run.handle(event)
        if isinstance(event, RankSilent):
            self._tell_of_silence(event)
        else:
            self._view.handle(event)
        if self._stalls is not None:
            with self._going_on("the stall watch"):
                self._stalls.handle(event)
        if isinstance(event, RankFinished | RankFailed):
            self._runs.notify()

    @contextmanager
    def _going_on(self, what: str) -> Iterator[None]:
        """Say once that a part of ours raised in the block, and go on: the run must come to its end.

        Args:
            what: the part, as the subject of a sentence.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever it is, leaving the loop would leave the ranks alone
            if what not in self._problems:
                self._problems.add(what)
                print_error(error)
                self._tell(f"{what} raised {described(error)}; the cell goes on")

    def _note_stall(self, now_s: float) -> None:
        """Have the panel show a stall for as long as it lasts."""
        stall = self._stalls.standing(now_s) if self._stalls is not None else ""
        if stall != self.run.stall:
            self.run.stall = stall
            self._runs.notify()

    def _tell_of_the_record(self) -> None:
        """Tell, once, that the run's folder cannot be written: the run goes on."""
        problem = self.run.recorder.problem
        if problem is None or self._is_told:
            return
        self._is_told = True
        self._tell(f"this run is not recorded any more: {problem}")

    def _tell(self, text: str) -> None:
        """Show a line of ours under the cell."""
        if self._view.is_shown:
            self._view.handle(OutputChunk(self.run.id, self.run.ranks[0], "stderr", f"jupyter_ddl: {text}\n"))

    def _tell_of_silence(self, event: RankSilent) -> None:
        if event.fault is not None:
            self._tell(headline(event.fault))
        else:
            self._tell(f"rank {event.rank} is back after {event.seconds:.0f} s")

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
        self._begin_release(reason)

    def _begin_release(self, reason: str) -> None:
        if self._released_s is None:
            now_s = time.monotonic()
            self._patience = Patience(self._starve, now_s)
            self._released_s = now_s
        with self._going_on("the release of the ranks"):
            self._runs.release(self.run, reason)

    def _starve(self) -> bool:
        # Where it cannot be known, time counts: else the ranks would be waited for without an end.
        found = [False]
        with self._going_on("the look for a free core"):
            found.append(self._runs.starve(self.run))
        return found[-1]

    def _check_release(self, now_s: float, since_s: float) -> None:
        """See to it that ranks answer their release, and say what is known of those that do not."""
        if since_s > _ASK_S and now_s - self._asked_s > _ASK_S:
            self._asked_s = now_s
            with self._going_on("asking the ranks"):
                self._runs.ask(self.run)
        if since_s < IMPORT_S and self._runs.importing(self.run) and self._patience is not None:
            self._patience.renew()
        if since_s > _TOLD_S and not self._is_stuck_told:
            self._is_stuck_told = True
            for rank in sorted(self.run.pending):
                self._tell(
                    f"rank {rank} has not answered its release for {_TOLD_S:g} s: {render_process(self._process(rank))}"
                )
        if self._is_given_up() and self._runs.replaces_lost:
            self._tell(f"{self._who()} did not answer in time: all ranks are ended")
            self._runs.give_up(self._unanswered(since_s))

    def _unanswered(self, since_s: float) -> Fault:
        """Return why all ranks are ended: some did not answer their release."""
        stuck = tuple(sorted(self.run.pending))
        facts = Facts(
            seconds=since_s,
            outcome=self._outcome if self._outcome != "finished" else "",
            by=(self._released_by or "") if self._outcome == "finished" else "",
            processes=tuple(map(self._process, stuck)),
        )
        return Fault("lost", "release", stuck, at_s=time.time(), facts=facts)

    def _process(self, rank: int) -> RankProcess:
        """Return what is known of a rank that does not answer its release."""
        if rank in self._runs.importing(self.run):
            return RankProcess(rank, "importing")
        if rank in self.run.unwinding:
            return RankProcess(rank, "unwinding")
        known = [RankProcess(rank, "unknown")]
        with self._going_on("the look at a rank"):
            known.append(self._runs.state_of(rank))
        return known[-1]

    def _who(self) -> str:
        return named(self.run.pending)

    def _is_given_up(self) -> bool:
        if self._patience is None:
            return False
        return self._patience.used_s > (ANSWER_S if self.run.pending - self.run.unwinding else UNWIND_S)

    def _finish(self) -> None:
        """Record and show the run's end. Each part on its own: the run must be taken off the active ones."""
        run = self.run
        if run.lost is not None:
            self._outcome = "lost"
            with self._going_on("the search for what a lost rank printed last"):
                self._show_last_words()
        elif run.causes() and self._outcome in ("finished", "failed"):
            # Also where ranks failed first of which none knew why.
            self._outcome = self._outcome_of_failures()
        elif run.pending and self._outcome == "finished":
            # Given up after a release that was not this cell's own.
            self._outcome = "interrupted"
        with self._going_on("the cause of the run's end"):
            run.fault = fault_of(run, self._outcome, self._circumstances(), time.time())
        finished = RunFinished(run.id, self._outcome, run.seconds, run.fault)
        figures: dict[str, Any] = {}
        with self._going_on("the sum of the run's figures"):
            figures = run.summary.fields()
        with self._going_on("the record of the run"):
            run.recorder.handle(finished)
        with self._going_on("the record of the run"):
            fault = None if run.fault is None else asdict(run.fault)
            run.folder.update(outcome=self._outcome, seconds=round(run.seconds, 4), fault=fault, **figures)
        self._tell_of_the_record()
        self._view.handle(finished)
        self._view.flush()
        with self._going_on("the end of the run"):
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
            self._view.handle(chunk)

    def _circumstances(self) -> Circumstances:
        return Circumstances(
            remedy=self._runs.remedy,
            elsewhere=self._reason_elsewhere(),
            timeout_s=self._timeout_s,
            stall=None if self._stalls is None else self._stalls.fault,
            answer_s=ANSWER_S,
        )

    def _conclude(self) -> RunResult:
        # An interrupt may have come, or the ranks may have been lost, when they had just ended.
        fault = self.run.fault or fault_of(self.run, self._outcome, self._circumstances(), time.time())
        return conclude(self.run, self._outcome, fault)
