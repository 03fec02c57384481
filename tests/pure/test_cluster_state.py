"""What a panel shows of ranks, in each state that they can be in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_ddl.kernel.cluster_state import cluster_state
from jupyter_ddl.protocol.events import RankLost, RankReady
from jupyter_ddl.protocol.faults import Fault

READY = {rank: RankReady(rank, 3, rank, "node-a", 4700 + rank, "CPU", 2) for rank in (2, 0, 1)}
KILLED = RankLost(1, Fault("lost", "rank", (1,)), 5.0)
GONE = RankLost(None, Fault("lost", "lease"), 5.0)
STOPPED = RankLost(None, Fault("stopped", "user"), 5.0)


def described(
    busy: set[int], silent: set[int] = frozenset(), lost: RankLost | None = None, step: str | None = None
) -> Any:
    spec = SimpleNamespace(name="mine", note="3 ranks")
    supervisor = SimpleNamespace(silent=set(silent))
    cluster: Any = SimpleNamespace(spec=spec, supervisor=supervisor, ranks=READY, world_size=3)
    runs: Any = SimpleNamespace(lost=lost, busy_ranks=lambda: busy)
    return cluster_state(cluster, runs, step)


@pytest.mark.parametrize(
    ("given", "state", "ranks"),
    [
        ({"busy": set()}, "idle", ["ready", "ready", "ready"]),
        ({"busy": {0, 2}}, "running", ["running", "ready", "running"]),
        # One that was silent in a run before is not looked at any more.
        ({"busy": {0, 2}, "silent": {1, 2}}, "running", ["running", "ready", "silent"]),
        # One died, and the others ended with it.
        ({"busy": set(), "lost": KILLED}, "lost", ["ended", "lost", "ended"]),
        ({"busy": set(), "lost": GONE}, "lost", ["lost", "lost", "lost"]),
        ({"busy": set(), "lost": KILLED, "step": "starting 3 ranks"}, "rebuilding", ["ended", "lost", "ended"]),
        # The setup cells run on the new ones.
        ({"busy": {0}, "step": "running setup cell 1 of 1"}, "rebuilding", ["running", "ready", "ready"]),
        ({"busy": set(), "lost": STOPPED}, "stopped", []),
    ],
)
def test_the_state_of_ranks(given: dict[str, Any], state: str, ranks: list[str]) -> None:
    found = described(**given)
    assert (found["name"], found["note"], found["world_size"], found["state"]) == ("mine", "3 ranks", 3, state)
    assert [rank["state"] for rank in found["ranks"]] == ranks
    assert found["step"] == given.get("step")
    assert [rank["pid"] for rank in found["ranks"]] == [4700, 4701, 4702][: len(ranks)]
