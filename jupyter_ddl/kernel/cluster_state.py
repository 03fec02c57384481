"""Describes the state of a cluster for a panel and for `%ddl status`.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jupyter_ddl.cluster.jobs_known import scheduler_named
from jupyter_ddl.kernel.cluster_transitions import LifecycleState
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.views.fault import describe
from jupyter_ddl.views.held_ranks import held_sentence

if TYPE_CHECKING:
    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.kernel.attempt import Snapshot
    from jupyter_ddl.protocol.events import RankHeld
    from jupyter_ddl.protocol.hub_messages import ClusterState, RankState

_WITHOUT_RANKS = (LifecycleState.STARTING, LifecycleState.STOPPED)


def cluster_state(now: Snapshot) -> ClusterState:
    """Return the state of the cluster and its ranks. Called under the state's lock, so that all of it is of one moment.

    Args:
        now: the cluster.
    """
    ranks: list[RankState] = []
    held: list[RankHeld] = []
    if now.incarnation is not None and now.state not in _WITHOUT_RANKS:
        held = now.incarnation.runs.held()
        ranks = _ranks(now.incarnation.cluster, now.incarnation.runs)
    return {
        "name": now.spec.name,
        "state": now.state.value,
        "note": now.spec.note,
        "step": now.step if now.is_bringing_up else None,
        "world_size": now.spec.n,
        "ranks": ranks,
        "ends_at_s": ends_at_s(now),
        "idle_ends_at_s": idle_ends_at_s(now),
        "keeps_variables": now.spec.keep_variables,
        "job": job_title(now.spec),
        "held": held_sentence(held),
    }


def job_title(spec: ClusterSpec) -> str | None:
    """Return the name of the batch job that brings the ranks, as messages have it; None without one."""
    if spec.served is None:
        return None
    scheduler = scheduler_named(spec.served.scheduler)
    return f"{spec.served.scheduler if scheduler is None else scheduler.title} job {spec.served.job}"


def ends_at_s(now: Snapshot) -> float | None:
    """Return when the batch job that the ranks are in is over, in seconds since the epoch; None without one."""
    if now.incarnation is None or now.state in _WITHOUT_RANKS or now.incarnation.runs.wall_time is None:
        return None
    return now.incarnation.runs.wall_time.ends_at_s


def idle_ends_at_s(now: Snapshot) -> float | None:
    """Return when the ranks are ended as idle, in seconds since the epoch; None while they are used, and for never."""
    if now.incarnation is None or now.state is not LifecycleState.READY or now.incarnation.runs.idle_count is None:
        return None
    return now.incarnation.runs.idle_count.ends_at_s


def why_not_ready(now: Snapshot) -> str | None:
    """Return why no cell can be run now; None while one can."""
    if now.state is LifecycleState.REBUILDING:
        return f"new ranks in place of lost ones: {now.step}"
    if now.state is LifecycleState.STARTING:
        return f"new ranks: {now.step}"
    if now.state is LifecycleState.STOPPED:
        return describe(Fault("stopped", "user"))
    return None if now.incarnation is None else now.incarnation.runs.why_lost()


def fault_of_loss(now: Snapshot) -> Fault | None:
    """Return the fault by which the ranks were lost; None while they live, and after a stop by this kernel's user."""
    lost = None if now.incarnation is None else now.incarnation.runs.lost
    if now.state is LifecycleState.STOPPED and lost is not None and lost.fault.subject == "idle":
        return lost.fault
    is_lost = now.state in (LifecycleState.LOST, LifecycleState.REBUILDING)
    return lost.fault if is_lost and lost is not None and not lost.asked else None


def _ranks(cluster: Cluster, runs: ActiveRuns) -> list[RankState]:
    lost, busy = runs.lost, runs.busy_ranks()
    silent = cluster.supervisor.silent & busy
    held = {one.rank for one in runs.held()}

    def of_rank(rank: int) -> Literal["ready", "running", "lost", "ended", "silent", "held"]:
        if lost is not None:
            return "lost" if lost.rank in (None, rank) else "ended"
        if rank in held:
            return "held"
        return "silent" if rank in silent else "running" if rank in busy else "ready"

    return [
        {
            "rank": ready.rank,
            "local_rank": ready.local_rank,
            "host": ready.host,
            "pid": ready.pid,
            "device": ready.device,
            "threads": ready.threads,
            "state": of_rank(ready.rank),
        }
        for _, ready in sorted(cluster.ranks.items())
    ]
