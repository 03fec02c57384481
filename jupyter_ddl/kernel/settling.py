"""Has a cell wait for new ranks before it is sent, and refuses it where there are none.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster import kept_variables
from jupyter_ddl.errors import ClusterError, ClusterLost, DdlError, NoCluster, RunInterrupted
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.kernel.cluster_transitions import LifecycleState
from jupyter_ddl.views.fault import describe, render_remedy

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.cluster_lifecycle import ClusterLifecycle
    from jupyter_ddl.kernel.incarnation import Incarnation

# How soon an interrupt is seen; changes of the cluster wake the wait.
_TICK_S = 0.1


def wait_settled(lifecycle: ClusterLifecycle, progress: Callable[[str], None]) -> str | None:
    """Wait until no ranks are being brought up; return the report of a rebuild, once.

    Args:
        lifecycle: the state of the cluster.
        progress: called with a sentence at each step of a rebuild.

    Raises:
        ClusterLost: lost ranks could not be replaced, or a setup cell ended the new ones.
        SetupFailed: a setup cell raised on the new ranks; raised once.
        RunInterrupted: KeyboardInterrupt came; the start continues.
    """
    shown = ""
    with interrupts_noted() as interrupted:
        now = lifecycle.snapshot()
        while now.is_bringing_up:
            if now.state is LifecycleState.REBUILDING and now.step not in ("", shown):
                shown = now.step
                progress(shown)
            if interrupted.came:
                interrupted.came = False
                step = f" ({shown})" if now.state is LifecycleState.REBUILDING else ""
                raise RunInterrupted(f"New ranks are still being started{step}; the cell was not run.")
            now = lifecycle.wait_for_change(now.step, _TICK_S)
    report = lifecycle.take_report()
    if isinstance(report, DdlError):
        raise report
    return report


def usable_ranks(lifecycle: ClusterLifecycle) -> Incarnation:
    """Return the ranks, after a check that they can run a cell.

    Raises:
        NoCluster: they were stopped.
        ClusterLost: they were lost, and are not replaced.
        ClusterError: some have not answered their release.
    """
    now = lifecycle.snapshot()
    assert now.incarnation is not None, "a session has ranks before it is used"
    runs = now.incarnation.runs
    lost = runs.lost
    if now.state is LifecycleState.STOPPED or (lost is not None and lost.asked):
        name = now.incarnation.cluster.spec.name
        if lost is not None and lost.fault.subject == "idle":
            kept = kept_variables.read(now.incarnation.cluster.world_id)
            is_lost = kept is None or kept.problem is not None
            how = f"{describe(lost.fault)}; what its cells defined is {'lost' if is_lost else 'kept'}"
            again = "%ddl restart starts it again" + ("" if is_lost else ", with its variables")
            if now.incarnation.cluster.spec.served is not None:
                # The job has ended with them.
                again = "%ddl submit sends another job"
            raise NoCluster(f"Ranks must run. Received: the cluster {name!r} was {how}. {again}.")
        raise NoCluster(f"Ranks must run. Received: the cluster {name!r} was stopped. Start one with %ddl start.")
    if lost is not None:
        raise ClusterLost(f"Ranks must run. Received: {describe(lost.fault)}\n{render_remedy(runs.remedy)}")
    stuck = runs.stuck()
    if stuck:
        raise ClusterError(
            f"Every rank must have ended the cell before. Received: ranks {stuck} did not answer "
            f"their release. Wait until they do, or start new ones with %ddl restart."
        )
    return now.incarnation
