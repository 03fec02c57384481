"""What a panel shows of a session's ranks.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.kernel.observers import Starting
    from jupyter_ddl.protocol.hub_messages import ClusterState, RankState


def cluster_state(cluster: Cluster, runs: ActiveRuns, step: str | None) -> ClusterState:
    """Return how the ranks are now.

    Args:
        cluster: whose ranks.
        runs: what goes on there.
        step: what the replacement of lost ranks is at; None where none goes on.
    """
    lost, busy = runs.lost, runs.busy_ranks()
    state: Literal["idle", "running", "rebuilding", "lost", "stopped"] = "running" if busy else "idle"
    if step is not None:
        state = "rebuilding"
    elif lost is not None:
        state = "stopped" if lost.asked else "lost"
    silent = cluster.supervisor.silent & busy

    def of_rank(rank: int) -> Literal["ready", "running", "lost", "ended", "silent"]:
        if lost is not None:
            return "lost" if lost.rank in (None, rank) else "ended"
        return "silent" if rank in silent else "running" if rank in busy else "ready"

    ranks: list[RankState] = [
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
    return {
        "name": cluster.spec.name,
        "state": state,
        "note": cluster.spec.note,
        "step": step,
        "world_size": cluster.world_size,
        "ranks": [] if state == "stopped" else ranks,
    }


def starting_state(starting: Starting) -> ClusterState:
    """Return the state of ranks that are being started."""
    return {
        "name": starting.name,
        "state": "starting",
        "note": starting.note,
        "step": starting.step,
        "world_size": starting.world_size,
        "ranks": [],
    }
