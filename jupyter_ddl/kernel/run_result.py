"""Finds why a run did not end well, as a fault; raises that, or returns the run's result.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_ddl.errors import RankError, RankTraceback
from jupyter_ddl.kernel.lost_ranks import with_last_seen
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.runs.ending import raised
from jupyter_ddl.views.fault import ERRORS, render_fault

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Outcome
    from jupyter_ddl.protocol.faults import Remedy
    from jupyter_ddl.protocol.rank_life import RankLost
    from jupyter_ddl.runs.run import Run, RunResult

# The part of a rank's output, its end, in which the cause of a loss is looked for.
_LAST_CHARACTERS = 4000


@dataclass(frozen=True)
class Circumstances:
    """What a run's follower knows of its end, besides the run itself.

    Attributes:
        remedy: what the user can do where the ranks are lost.
        elsewhere: the reason of the release from elsewhere that ended the ranks; None where none did.
        timeout_s: the cell's.
        stall: the fault of a stall that was reported; None where there was none.
        answer_s: how long a released rank was waited for.
    """

    remedy: Remedy | None = None
    elsewhere: str | None = None
    timeout_s: float | None = None
    stall: Fault | None = None
    answer_s: float = 0.0


def fault_of(run: Run, outcome: Outcome, known: Circumstances, at_s: float) -> Fault | None:
    """Return why a run did not end well; None where it did.

    Args:
        run: the run, which has ended or was given up.
        outcome: how it ended.
        known: what else is known of its end.
        at_s: when it ended, seconds since the epoch.
    """
    world_size, causes = run.world_size, run.causes()
    if run.lost is not None:
        fault = _lost(run, run.lost)
        return replace(fault, remedy=known.remedy, facts=replace(fault.facts, world_size=world_size))
    if run.pending:
        facts = Facts(world_size=world_size, limit_s=known.answer_s, outcome=outcome)
        return Fault("unanswered", "ranks", tuple(sorted(run.pending)), at_s=at_s, facts=facts)
    facts = Facts(world_size=world_size, seconds=run.seconds)
    if outcome == "interrupted":
        return Fault("interrupted", "user", run.ranks, at_s=at_s, facts=replace(facts, by=known.elsewhere or ""))
    if outcome == "stalled" and known.stall is not None:
        return replace(known.stall, facts=replace(known.stall.facts, outcome=outcome))
    if outcome == "timed out":
        return Fault("timed out", "ranks", run.ranks, at_s=at_s, facts=replace(facts, limit_s=known.timeout_s))
    return raised(causes, run.released(), world_size) if causes else None


def conclude(run: Run, outcome: Outcome, fault: Fault | None) -> RunResult:
    """Return a run's result, or raise its fault.

    Raises:
        RankError, RunTimedOut, RunInterrupted, RunStalled, ClusterLost, ClusterError: as `Session.run` says.
    """
    if fault is None:
        return run.result(outcome)
    text = render_fault(fault, run.causes(), logs=run.folder.path)
    if fault.kind in ERRORS:
        raise ERRORS[fault.kind](text)
    error = RankError(run.causes(), fault.facts.released, run.world_size)
    error.report = text
    raise error from RankTraceback(text)


def _lost(run: Run, lost: RankLost) -> Fault:
    """Return how the ranks were lost, with what the run knows of the one that ended first."""
    result = None if lost.rank is None else run.results.get(lost.rank)
    if result is None or lost.rank is None or lost.asked:
        return lost.fault
    printed = (result.stderr or result.stdout)[-_LAST_CHARACTERS:].splitlines()
    return with_last_seen(lost.fault, run.last_samples.get(lost.rank), printed)
