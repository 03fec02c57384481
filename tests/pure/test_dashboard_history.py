"""The history of events that a dashboard keeps: thinned, bounded, and alike for all ranks."""

from __future__ import annotations

from itertools import pairwise

from shown_events import out, sample

from jupyter_ddl.protocol.events import (
    OutputChunk,
    RankFailed,
    RunStarted,
    StragglerMarked,
)
from jupyter_ddl.views.history import MAX_TRACEBACKS, History


def test_history_thins_samples_alike_on_all_ranks() -> None:
    history = History(max_samples=100)
    for at in range(1000):
        for rank in range(4):
            history.add(sample(rank, float(at), step=at))
    events = [entry.event for entry in history.entries()]
    by_rank = [[event.at_s for event in events if event.rank == rank] for rank in range(4)]
    assert 48 < len(events) <= 100
    assert by_rank[0] == by_rank[1] == by_rank[2] == by_rank[3]
    # Evenly, and with the newest.
    assert by_rank[0][-1] == 999
    gaps = [after - before for before, after in pairwise(by_rank[0])]
    assert max(gaps) <= 2 * min(gaps[:-1])
    assert history.next == 4000


def test_history_keeps_one_sample_of_each_rank_in_any_case() -> None:
    history = History(max_samples=10)
    for at in range(3):
        for rank in range(100):
            history.add(sample(rank, at * 1e6))
    assert sorted({entry.event.rank for entry in history.entries()}) == list(range(100))


def test_history_from_a_number_on_is_what_came_since() -> None:
    history = History(max_samples=100)
    for at in range(1000):
        history.add(sample(at % 2, float(at)))
        history.add(out(0, f"{at}\n"))
        history.add(StragglerMarked("r", 0, float(at), at % 2 == 0, 1.5, "input"))
    every = history.entries()
    for since in (0, 1, 1500, 2998, 2999, 3000):
        assert history.entries(since=since) == [entry for entry in every if entry.number >= since]
    cut = [entry.event for entry in history.entries(max_text=4, since=2994) if isinstance(entry.event, OutputChunk)]
    assert [(chunk.text, chunk.skipped_bytes) for chunk in cut] == [("999\n", 4)]


def test_history_tells_of_all_output_that_it_dropped() -> None:
    history = History(max_text=1000)
    for at in range(100):
        history.add(out(0, f"{at:099}\n"))
        history.add(out(1, "é\n", "stderr", skipped=7 if at == 0 else 0))
    history.add(out(0, "x" * 990 + "\n"))
    for since, told in ((0, {0: 100 * 100, 1: 100 * 3 + 7}), (100, {0: 50 * 100, 1: 50 * 3}), (200, {0: 0})):
        chunks = [entry.event for entry in history.entries(since=since)]
        missing = {rank: sum(chunk.skipped_bytes for chunk in chunks if chunk.rank == rank) for rank in told}
        sent = {rank: sum(len(chunk.text.encode()) for chunk in chunks if chunk.rank == rank) for rank in told}
        # What is sent, and what is told to be missing, is all that there was.
        assert {rank: missing[rank] + sent[rank] - (991 if rank == 0 else 0) for rank in told} == told
        assert all(since <= entry.number < history.next for entry in history.entries(since=since))
    # Of what was sent before nothing is missing.
    assert history.entries(since=history.next) == []


def test_history_keeps_the_newest_output_and_all_states() -> None:
    history = History(max_text=1000)
    history.add(RunStarted("r", (0,), 1, 0.0))
    for at in range(100):
        history.add(out(0, f"{at:099}\n"))
    for at in range(10_000):
        history.add(StragglerMarked("r", 0, float(at), at % 2 == 0, 1.5, "input"))
    for rank in range(MAX_TRACEBACKS + 1):
        history.add(RankFailed("r", rank, "h", "E", "m", ("t",) * 10, False, 1.0))
    events = [entry.event for entry in history.entries()]
    assert events[0] == RunStarted("r", (0,), 1, 0.0)
    assert [int(event.text) for event in events if isinstance(event, OutputChunk)] == list(range(90, 100))
    assert len(events) < 5000
    tracebacks = [len(event.traceback) for event in events if isinstance(event, RankFailed)]
    assert tracebacks == [10] * MAX_TRACEBACKS + [0]
