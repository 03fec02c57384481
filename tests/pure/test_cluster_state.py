"""What a panel shows of ranks, in each state that they can be in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.kernel.attempt import Snapshot
from jupyter_ddl.kernel.cluster_state import cluster_state
from jupyter_ddl.kernel.cluster_transitions import LifecycleState
from jupyter_ddl.protocol.events import RankHeld
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.protocol.rank_life import RankLost, RankReady

READY = {rank: RankReady(rank, 3, rank, "node-a", 4700 + rank, "CPU", 2) for rank in (2, 0, 1)}
KILLED = RankLost(1, Fault("lost", "rank", (1,)), 5.0)
GONE = RankLost(None, Fault("lost", "lease"), 5.0)
HELD = RankHeld("run", 2, 5.0, "/home/train.py", 8, "f")
STOPPED = RankLost(None, Fault("stopped", "user"), 5.0)


def described(
    state: LifecycleState,
    busy: set[int] = frozenset(),  # type: ignore[assignment]
    silent: set[int] = frozenset(),  # type: ignore[assignment]
    lost: RankLost | None = None,
    held: tuple[RankHeld, ...] = (),
    step: str = "",
) -> Any:
    spec = ClusterSpec("mine", 3, (), 1, {}, keep=False, oversubscribe=False, note="3 ranks", keep_variables=True)
    cluster: Any = SimpleNamespace(supervisor=SimpleNamespace(silent=set(silent)), ranks=READY)
    wall_time = SimpleNamespace(ends_at_s=99.0)
    count = SimpleNamespace(ends_at_s=98.0)
    of_end = {"wall_time": wall_time, "idle_count": count}
    runs: Any = SimpleNamespace(lost=lost, busy_ranks=lambda: busy, held=lambda: [*held], **of_end)
    ranks: Any = SimpleNamespace(cluster=cluster, runs=runs)
    return cluster_state(Snapshot(state, step, spec, ranks))


@pytest.mark.parametrize(
    ("given", "ranks"),
    [
        ({"state": LifecycleState.READY}, ["ready", "ready", "ready"]),
        ({"state": LifecycleState.RUNNING, "busy": {0, 2}}, ["running", "ready", "running"]),
        # One that was silent in a run before is not looked at any more.
        ({"state": LifecycleState.RUNNING, "busy": {0, 2}, "silent": {1, 2}}, ["running", "ready", "silent"]),
        ({"state": LifecycleState.RUNNING, "busy": {0, 2}, "held": (HELD,)}, ["running", "ready", "held"]),
        # One died, and the others ended with it.
        ({"state": LifecycleState.LOST, "lost": KILLED}, ["ended", "lost", "ended"]),
        ({"state": LifecycleState.LOST, "lost": GONE}, ["lost", "lost", "lost"]),
        (
            {"state": LifecycleState.REBUILDING, "lost": KILLED, "step": "starting 3 ranks"},
            ["ended", "lost", "ended"],
        ),
        # The setup cells run on the new ones.
        (
            {"state": LifecycleState.REBUILDING, "busy": {0}, "step": "running setup cell 1 of 1"},
            ["running", "ready", "ready"],
        ),
        ({"state": LifecycleState.STARTING, "lost": STOPPED, "step": "starting 3 ranks"}, []),
        ({"state": LifecycleState.STOPPED, "lost": STOPPED}, []),
    ],
)
def test_the_state_of_ranks(given: dict[str, Any], ranks: list[str]) -> None:
    found = described(**given)
    assert (found["name"], found["note"], found["world_size"]) == ("mine", "3 ranks", 3)
    assert found["state"] == given["state"].value
    assert [rank["state"] for rank in found["ranks"]] == ranks
    assert found["ends_at_s"] == (99.0 if ranks else None)
    # They may be ended as idle while no cell runs, and they are there.
    assert found["idle_ends_at_s"] == (98.0 if given["state"] is LifecycleState.READY else None)
    assert found["keeps_variables"]
    assert found["step"] == given.get("step")
    assert found["held"] == ("Rank 2 is held in the debugger, at train.py:8, in f." if "held" in given else None)
    assert [rank["pid"] for rank in found["ranks"]] == [4700, 4701, 4702][: len(ranks)]
