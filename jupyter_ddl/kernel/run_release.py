"""Releases one run's ranks: sends the release, reports ranks that do not answer, and gives them up.

`release_policy` decides when each step is due.

Runs on: kernel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.kernel import release_policy
from jupyter_ddl.kernel.release_policy import ReleasePolicy
from jupyter_ddl.protocol.faults import Facts, Fault, RankProcess
from jupyter_ddl.protocol.rank_sets import named
from jupyter_ddl.views.fault import render_process

if TYPE_CHECKING:
    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.kernel.run_views import Notes
    from jupyter_ddl.protocol.events import Outcome
    from jupyter_ddl.runs.run import Run


class RunRelease:
    """The release of one run's ranks.

    Args:
        run: the run.
        runs: the cluster's active runs, which send to its ranks.
        notes: shows lines of ours under the cell.

    Attributes:
        policy: when each step is due.
        reasons: why this run's follower released the ranks.
        by: what else asked for it, as text; None where it was the run's own follower.
    """

    def __init__(self, run: Run, runs: ActiveRuns, notes: Notes) -> None:
        self._run = run
        self._runs = runs
        self._notes = notes
        self.policy = ReleasePolicy(release_policy.CELL, self._starve)
        self.reasons: set[str] = set()
        self.by: str | None = None

    def begin(self, reason: str) -> None:
        """Release the ranks on which the run is pending. Safe from any thread, and to call twice."""
        self.policy.begin(self._run.clock.now_s())
        with self._notes.guarded("the release of the ranks"):
            self._runs.release(self._run, reason)

    def check(self, now_s: float, outcome: Outcome) -> None:
        """Ping ranks that have not answered, report what is known of them, and give them up in the end.

        Args:
            now_s: by the run's clock.
            outcome: how the run ends by this release; "finished" where the request came from elsewhere.
        """
        run, runs, policy = self._run, self._runs, self.policy
        due = policy.look(now_s, importing=bool(runs.importing(run)))
        if "ask" in due:
            with self._notes.guarded("asking the ranks"):
                runs.ask(run)
        if "report" in due:
            waited = f"{policy.times.report_s:g} s"
            for rank in sorted(run.pending):
                state = render_process(self._process(rank))
                self._notes.tell(f"rank {rank} has not answered its release for {waited}: {state}")
        if self.is_given_up and runs.replaces_lost:
            self._notes.tell(f"{named(run.pending)} did not answer in time: all ranks are ended")
            runs.give_up(self._unanswered(policy.since_s(now_s), outcome))

    @property
    def is_given_up(self) -> bool:
        """Whether the ranks have had the whole time of a release."""
        return self.policy.is_over(unwinding=not self._run.pending - self._run.unwinding)

    def _unanswered(self, since_s: float, outcome: Outcome) -> Fault:
        """Return why all ranks are ended: some did not answer their release."""
        stuck = tuple(sorted(self._run.pending))
        facts = Facts(
            seconds=since_s,
            outcome=outcome if outcome != "finished" else "",
            by=(self.by or "") if outcome == "finished" else "",
            processes=tuple(map(self._process, stuck)),
        )
        return Fault("lost", "release", stuck, at_s=time.time(), facts=facts)

    def _process(self, rank: int) -> RankProcess:
        """Return what is known of a rank that does not answer its release."""
        if rank in self._runs.importing(self._run):
            return RankProcess(rank, "importing")
        if rank in self._run.unwinding:
            return RankProcess(rank, "unwinding")
        known = [RankProcess(rank, "unknown")]
        with self._notes.guarded("the look at a rank"):
            known.append(self._runs.state_of(rank))
        return known[-1]

    def _starve(self) -> bool:
        # Where it is not known, time counts: else the wait for the ranks would have no end.
        found = [False]
        with self._notes.guarded("the look for a free core"):
            found.append(self._runs.starve(self._run))
        return found[-1]
