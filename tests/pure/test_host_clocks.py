"""The clocks of hosts are compared by pings, and events get the times of this host's clock."""

from __future__ import annotations

import random
import tempfile
from typing import TYPE_CHECKING

import pytest
from kernel_sides import SPEC

from jupyter_ddl import paths
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.host_clocks import on_our_clock
from jupyter_ddl.cluster.lifecycle import Cluster
from jupyter_ddl.launch.clock_pings import Ping, clock_offset_s
from jupyter_ddl.protocol.events import Event, MetricsSample, OutputChunk, RankFailed, RankFinished
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.protocol.rank_life import RankLost, RankReady

if TYPE_CHECKING:
    from collections.abc import Iterator


def pings(offset_s: float, seed: int) -> list[Ping]:
    """Return eight pings over a way that takes 0.2 ms at least, and now and then much longer in one direction."""
    ways = random.Random(seed)
    made = []
    for number in range(8):
        there_s, back_s = (0.0002 + ways.expovariate(1 / 0.02) * (ways.random() < 0.7) for _ in range(2))
        sent_s = 1e9 + number
        made.append(Ping(sent_s, sent_s + there_s + offset_s, sent_s + there_s + back_s))
    return made


@pytest.mark.parametrize("offset_s", [120.0, -0.05, 3600.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_quickest_ping_counts(offset_s: float, seed: int) -> None:
    asked = pings(offset_s, seed)
    error_s = min(ping.round_trip_s for ping in asked) / 2
    assert abs(clock_offset_s(asked, 0.0, 0.0) - offset_s) <= error_s + 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_clocks_that_agree_are_not_corrected(seed: int) -> None:
    assert clock_offset_s(pings(0.0, seed), 0.0, 0.0) == 0


def test_without_pings_the_answer_counts_where_its_way_cannot_explain_it() -> None:
    assert clock_offset_s([], 1000.0, 1000.3) == 0
    assert clock_offset_s([], 1060.0, 1000.3) == pytest.approx(59.7)


def test_a_ping_during_which_our_clock_was_set_back_does_not_count() -> None:
    assert clock_offset_s([Ping(100.0, 160.0, 40.0), Ping(50.0, 110.0, 50.0)], 0.0, 0.0) == 60.0


def test_an_event_without_a_time_stays_without_one() -> None:
    assert on_our_clock(OutputChunk("run", 2, "stdout", "x"), 60.0).at_s == 0
    assert on_our_clock(RankLost(2, Fault("lost", "rank", (2,)), 5.0), 60.0).at_s == 5.0


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        monkeypatch.setenv(paths.RUNTIME_VARIABLE, f"{made}/runtime")
        yield


@pytest.mark.usefixtures("runtime")
def test_who_failed_first_holds_between_hosts() -> None:
    folder = ClusterFolder("clocks")
    folder.create(SPEC, {"world_id": "w", "kernel_pid": 1, "clock_offsets_s": {"ahead": 60.0}})
    cluster = Cluster(folder, None)
    heard: list[Event] = []
    cluster.listen(heard.append)
    for rank, host in enumerate(("here", "ahead")):
        cluster._on_ranks_event(RankReady(rank, 2, 0, host, 4711, "CPU", 1))
    heard.clear()
    # Rank 1 raised first, at 999.9 by this host's clock.
    cluster._on_ranks_event(RankFailed("run", 1, "ahead", "ValueError", "no", (), released=False, at_s=1059.9))
    cluster._on_ranks_event(RankFailed("run", 0, "here", "KeyError", "no", (), released=False, at_s=1000.0))
    cluster._on_ranks_event(MetricsSample("run", 1, 1061.0, 100.0, 1))
    cluster._on_ranks_event(RankFinished("run", 0, 1002.0))
    # What the lease and this kernel say is by this clock already.
    cluster._on_event(RankLost(1, Fault("lost", "rank", (1,)), 1003.0))
    assert [round(event.at_s, 6) for event in heard if not isinstance(event, RankReady)] == [  # type: ignore[union-attr]
        999.9,
        1000.0,
        1001.0,
        1002.0,
        1003.0,
    ]
