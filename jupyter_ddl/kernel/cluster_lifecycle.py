"""Holds the state of a cluster: one object with one lock, to which every thread reports events.

`cluster_transitions` has the table of states. This module has what changes with them: the current ranks, the attempt to
bring up new ones, and the report of that for the next cell. What takes time (ending ranks, starting others) is done
without the lock, by the thread that holds the `Attempt`.

Runs on: kernel.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from jupyter_ddl.cluster.remote_lease import PREEMPTED, REQUEUED
from jupyter_ddl.cluster.shrinking import without_lost_host
from jupyter_ddl.errors import SetupFailed
from jupyter_ddl.host.threads import described, print_error
from jupyter_ddl.kernel.attempt import Attempt, Ending, Snapshot
from jupyter_ddl.kernel.checkpoint_offer import checkpoint_folders
from jupyter_ddl.kernel.cluster_transitions import LifecycleEvent, LifecycleState, Transition, state_after
from jupyter_ddl.protocol.faults import Remedy
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.errors import DdlError
    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.kernel.incarnation import Incarnation
    from jupyter_ddl.kernel.observers import Observers
    from jupyter_ddl.protocol.rank_life import RankLost
    from jupyter_ddl.runs.run import Run

_log = logging.getLogger("jupyter_ddl.cluster")


class Replacement(Protocol):
    """Starts new ranks in place of lost ones."""

    def begin(self, lifecycle: ClusterLifecycle, attempt: Attempt, lost: RankLost, runs: Sequence[Run]) -> Remedy:
        """Begin in a thread, and return the remedy to report. Called under the lifecycle's lock."""


class ClusterLifecycle:
    """The state of one cluster. Safe to use from any thread.

    Args:
        spec: of the first ranks.
        replacement: starts new ranks in place of lost ones.
        observers: notified of changes, never under the lock.
        replaces_lost: whether lost ranks are replaced without being asked.

    Attributes:
        lock: guards all that changes with the state, the active runs included.
        shrinks: the ranks that replace lost ones leave out a host that was lost.
    """

    def __init__(
        self, spec: ClusterSpec, replacement: Replacement, observers: Observers, *, replaces_lost: bool
    ) -> None:
        self.lock = threading.Condition(threading.RLock())
        self.replaces_lost = replaces_lost
        self.shrinks = False
        self._replacement = replacement
        self._observers = observers
        self._spec = spec
        self._state = LifecycleState.STOPPED
        self._last: Transition | None = None
        self._incarnation: Incarnation | None = None
        # The attempt whose ranks are wanted; those of the others still under way are ended as soon as they are up.
        self._attempt: Attempt | None = None
        self._going: set[Attempt] = set()
        self._step = ""
        self._report: str | DdlError | None = None

    @property
    def last(self) -> Transition | None:
        """The last change of the state; None before the first."""
        return self._last

    def snapshot(self) -> Snapshot:
        """Return the cluster as it is now."""
        with self.lock:
            spec = self._spec if self._attempt is None else self._attempt.spec
            return Snapshot(self._state, self._step, spec, self._incarnation)

    def notify(self, run: Run | None = None) -> None:
        """Notify the observers, with a run where that has begun or ended. Not to be called under the lock."""
        self._observers.notify(run)

    # Starting and stopping.

    def begin(self, spec: ClusterSpec, cause: str) -> Attempt:
        """Begin to start ranks, in place of the current ones.

        Raises:
            ClusterError: ranks are being started already.
        """
        with self.lock:
            self._apply(LifecycleEvent.START, cause)
            return self._new_attempt(spec)

    def note_step(self, attempt: Attempt, step: str) -> None:
        """Note the step that an attempt is at."""
        with self.lock:
            if attempt is not self._attempt:
                return
            self._step = step
            self.lock.notify_all()
        self.notify()

    def finish_ending(self, ending: Ending) -> None:
        """End the old ranks, and wait for the end of cancelled attempts."""
        if ending.old is not None:
            ending.old.end()
        with self.lock:
            self.lock.wait_for(lambda: ending.earlier.isdisjoint(self._going))

    def adopt(self, attempt: Attempt, incarnation: Incarnation) -> bool:
        """Make new ranks the cluster's; return False where their attempt was cancelled."""
        with self.lock:
            if attempt is not self._attempt:
                return False
            self._incarnation = incarnation
            # Its note also says what else uses its devices.
            self._spec = incarnation.cluster.spec
            return True

    def settle(self, attempt: Attempt, cause: str, report: str | DdlError | None = None) -> None:
        """Note that an attempt is over, with new ranks or without.

        Args:
            attempt: which; of a cancelled one no more is noted.
            cause: its result, for the log.
            report: what the next cell shows of it, or raises.
        """
        with self.lock:
            self._going.discard(attempt)
            self.lock.notify_all()
            if attempt is not self._attempt:
                return
            self._attempt, self._step, self._report = None, "", report
            incarnation = self._incarnation
            if incarnation is None or incarnation is attempt.ending.old:
                self._apply(LifecycleEvent.NOT_UP, cause)
            else:
                self._apply(LifecycleEvent.UP, cause)
                self._catch_up(incarnation)
        self.notify()

    def stop(self, cause: str) -> Ending:
        """Note that ranks are no longer wanted, and return what is to be ended."""
        with self.lock:
            ending = self._cancel()
            self._apply(LifecycleEvent.STOP, cause)
        self.notify()
        return ending

    # What the active runs report.

    def run_began(self, runs: ActiveRuns, run: Run) -> None:
        """Note that a run is active."""
        self._note_runs(runs, LifecycleEvent.RUN_BEGAN, run)

    def runs_ended(self, runs: ActiveRuns, run: Run) -> None:
        """Note that no run is active now; `run` was the last."""
        self._note_runs(runs, LifecycleEvent.RUNS_ENDED, run)

    def lose(self, runs: ActiveRuns, lost: RankLost, active: Sequence[Run]) -> Remedy:
        """Note that the ranks of `runs` have ended, and have them replaced; return the remedy.

        Called once for each world of ranks, under the lock.

        Args:
            runs: of the ranks.
            lost: how they ended.
            active: what they ran.
        """
        remedy = self._remedy(runs, lost, active)
        # New ranks that replace them say so.
        is_said = remedy.step in ("replaced", "replaced on fewer hosts", "wait")
        return remedy if is_said else replace(remedy, checkpoints=tuple(checkpoint_folders(active)))

    def _remedy(self, runs: ActiveRuns, lost: RankLost, active: Sequence[Run]) -> Remedy:
        if self._incarnation is None or runs is not self._incarnation.runs:
            # Lost before they were adopted: the end of their attempt applies it.
            return Remedy("restart")
        last = self._last
        if lost.asked:
            self._apply(LifecycleEvent.ENDED, describe(lost.fault))
        else:
            self._apply(LifecycleEvent.LOST, describe(lost.fault))
        if self._state is LifecycleState.STARTING:
            is_new = self._attempt is not None and self._attempt.ending.old is not self._incarnation
            return Remedy("restart again" if is_new and not lost.asked else "restarting")
        if self._state is LifecycleState.REBUILDING:
            return Remedy("restart" if lost.asked else "restart again")
        comes_back = lost.fault.facts.outcome in (REQUEUED, PREEMPTED)
        if self._state is LifecycleState.LOST and lost.fault.subject == "job" and not comes_back:
            return Remedy("submit")
        if self._state is not LifecycleState.LOST or not self.replaces_lost:
            return Remedy("restart")
        if last is not None and last.before is LifecycleState.REBUILDING:
            # They replaced lost ones and have run no cell of the user's: the same cause may have ended both.
            return Remedy("find the cause")
        remedy = self._rebuild(self._incarnation, lost, active)
        return Remedy("wait") if lost.fault.subject == "job" and remedy.step.startswith("replaced") else remedy

    # What the next cell reports.

    def wait_for_change(self, step: str, timeout_s: float) -> Snapshot:
        """Wait until no ranks are being brought up, or the step changes; return the cluster as it is then."""
        with self.lock:
            self.lock.wait_for(lambda: self._attempt is None or self._step != step, timeout_s)
            return self.snapshot()

    def take_report(self) -> str | DdlError | None:
        """Return the report of the last rebuild: once, but for an error that leaves no ranks."""
        with self.lock:
            report = self._report
            if report is None or isinstance(report, str | SetupFailed):
                self._report = None
            return report

    # Under the lock.

    def _apply(self, event: LifecycleEvent, cause: str) -> None:
        before = self._state
        after = state_after(before, event)
        if after is before:
            return
        self._state = after
        self._last = Transition(before, event, after, cause, time.time())
        self.lock.notify_all()
        _log.info("%s: %s, %s -> %s: %s", self.snapshot().spec.name, event.value, before.value, after.value, cause)

    def _cancel(self) -> Ending:
        if self._attempt is not None:
            self._attempt.given_up.set()
        self._attempt, self._step, self._report = None, "", None
        return Ending(self._incarnation, frozenset(self._going))

    def _new_attempt(self, spec: ClusterSpec) -> Attempt:
        attempt = self._attempt = Attempt(spec, self._cancel())
        self._going.add(attempt)
        return attempt

    def _catch_up(self, incarnation: Incarnation) -> None:
        """Apply the loss of new ranks, or the runs begun on them, from before their attempt was over."""
        lost = incarnation.runs.lost
        if lost is not None:
            event = LifecycleEvent.ENDED if lost.asked else LifecycleEvent.LOST
            self._apply(event, describe(lost.fault))
        else:
            for run in incarnation.runs.ids():
                self._apply(LifecycleEvent.RUN_BEGAN, run)

    def _note_runs(self, runs: ActiveRuns, event: LifecycleEvent, run: Run) -> None:
        with self.lock:
            if self._incarnation is not None and runs is self._incarnation.runs:
                self._apply(event, run.id)

    def _rebuild(self, old: Incarnation, lost: RankLost, active: Sequence[Run]) -> Remedy:
        spec = old.cluster.spec
        if self.shrinks:
            spec = without_lost_host(spec, lost.fault, old.cluster.hosts)
        attempt = self._new_attempt(spec)
        self._step = "beginning"
        self._apply(LifecycleEvent.REBUILD, f"{attempt.spec.n} new ranks replace them")
        try:
            return self._replacement.begin(self, attempt, lost, active)
        except BaseException as error:  # noqa: BLE001  whatever it is: the runs must get the loss all the same
            print_error(error)
            problem = described(error)
            self._going.discard(attempt)
            self._attempt, self._step = None, ""
            self._apply(LifecycleEvent.NOT_UP, problem)
            return Remedy("not replaced", problem=problem)
