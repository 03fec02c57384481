"""What is raised, or returned, of a run that has ended.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.errors import (
    ClusterError,
    ClusterLost,
    RankError,
    RankTraceback,
    RunInterrupted,
    RunStalled,
    RunTimedOut,
)
from jupyter_ddl.kernel.lost_ranks import describe_loss
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.views.failure import render_failure

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Outcome, RankLost
    from jupyter_ddl.runs.run import Run, RunResult

# Of what a rank printed, where its end is explained.
_LAST_CHARACTERS = 4000


def conclude(
    run: Run,
    outcome: Outcome,
    *,
    remedy: str,
    elsewhere: str | None,
    timeout_s: float | None,
    stalled: str,
    answer_s: float,
) -> RunResult:
    """Return what a run came to, or raise what ended it.

    Args:
        run: the run, which has ended or was given up.
        outcome: how.
        remedy: what the user can do where the ranks are lost.
        elsewhere: by what other release than its follower's the ranks ended; None where by none.
        timeout_s: the cell's.
        stalled: the report of a stall; empty where there was none.
        answer_s: how long a released rank was waited for.

    Raises:
        RankError, RunTimedOut, RunInterrupted, RunStalled, ClusterLost, ClusterError: as `Session.run` says.
    """
    causes = run.causes()
    if run.lost is not None:
        raised = f"\n\n{render_failure(RankError(causes, (), run.world_size))}" if causes else ""
        raise ClusterLost(
            f"Ranks must live to the end of the cell. Received: {_described(run, run.lost)}\n"
            f"{remedy} Logs: {run.folder.path}{raised}"
        )
    if run.pending:
        raise ClusterError(
            f"Every rank must answer its release within {answer_s:g} s. Received: nothing from ranks "
            f"{compact(sorted(run.pending))} ({outcome}). They are blocked outside Python and Horovod: "
            f"the next cell works once they have answered, and %ddl restart starts new ones. "
            f"Logs: {run.folder.path}"
        )
    if outcome == "interrupted":
        by = "" if elsewhere is None else f" by {elsewhere}"
        raise RunInterrupted(f"The cell was interrupted{by} after {run.seconds:.1f} s, and its ranks were released.")
    if outcome == "stalled" and stalled:
        raise RunStalled(f"{stalled}\nThe ranks were released, as --on-stall abort says.")
    if outcome == "timed out":
        raise RunTimedOut(
            f"The cell must end within its timeout. Received: --timeout {timeout_s:g}, and ranks still "
            f"at it. They were released. Pass a longer one, or none."
        )
    if causes:
        error = RankError(causes, run.released(), run.world_size)
        error.report = render_failure(error)
        raise error from RankTraceback(error.report)
    return run.result(outcome)


def _described(run: Run, lost: RankLost) -> str:
    result = None if lost.rank is None else run.results.get(lost.rank)
    if result is None or lost.rank is None:
        return describe_loss(lost)
    printed = (result.stderr or result.stdout)[-_LAST_CHARACTERS:].splitlines()
    return describe_loss(lost, run.last_samples.get(lost.rank), printed)
