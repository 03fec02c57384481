"""Recording a run, and taking one up that another kernel began."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import paths
from jupyter_ddl.cluster.host_clocks import on_our_clock
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.events import MetricsSample, OutputChunk, RankFinished, RunFinished, RunStarted
from jupyter_ddl.runs.folder import RunFolder, this_process, unfinished
from jupyter_ddl.runs.reading import read_events
from jupyter_ddl.runs.recorder import Recorder
from jupyter_ddl.runs.stragglers import Stragglers
from jupyter_ddl.runs.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_ddl.protocol.events import Event


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path))
    return RunFolder("default")


def chunk(rank: int, n: int) -> OutputChunk:
    return OutputChunk("run", rank, "stdout", f"{n} of {rank}\n", n=n)


def recorded(folder: RunFolder) -> list[Event]:
    return list(read_events(folder.path / "events.jsonl"))


def test_events_are_on_disk_as_soon_as_they_are_handled(folder: RunFolder) -> None:
    recorder = Recorder(folder)
    events: list[Event] = [RunStarted("run", (0,), 1, 1.0), chunk(0, 1), RunFinished("run", "finished", 2.0)]
    for count, event in enumerate(events, start=1):
        assert recorder.handle(event)
        assert recorded(folder) == events[:count]
    assert (folder.path / "events.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_second_recorder_adds_what_the_first_missed_and_nothing_twice(folder: RunFolder) -> None:
    first = Recorder(folder)
    first.handle(RunStarted("run", (0, 1), 2, 1.0))
    first.handle(chunk(0, 1))
    for rank in (0, 1):
        lines = [as_line(chunk(rank, n)) for n in (1, 2)] + [as_line(RankFinished("run", rank, 9.0, n=3))]
        (folder.path / f"rank-{rank}.events.jsonl").write_bytes(b"".join(lines))
    with (folder.path / "events.jsonl").open("ab") as file:
        file.write(b'{"type": "output", "ru')  # the kernel was killed here
    second = Recorder(folder)
    all_of_it = second.catch_up((0, 1), lambda event: event)
    assert not second.handle(chunk(1, 2))
    assert second.handle(chunk(1, 4))
    assert recorded(folder) == [*all_of_it, chunk(1, 4)]
    assert [(event.rank, event.n) for event in all_of_it if isinstance(event, OutputChunk)] == [
        (0, 1),
        (0, 2),
        (1, 1),
        (1, 2),
    ]
    assert sum(isinstance(event, RankFinished) for event in all_of_it) == 2


def test_what_the_first_missed_gets_the_times_of_this_hosts_clock(folder: RunFolder) -> None:
    # Rank 1's host is 60 s ahead.
    for rank, at_s in ((0, 1000.0), (1, 1059.0)):
        (folder.path / f"rank-{rank}.events.jsonl").write_bytes(as_line(RankFinished("run", rank, at_s, n=1)))
    caught_up = Recorder(folder).catch_up((0, 1), lambda event: on_our_clock(event, 60.0 * getattr(event, "rank", 0)))
    assert caught_up == [RankFinished("run", 1, 999.0, n=1), RankFinished("run", 0, 1000.0, n=1)]


def test_a_folder_that_cannot_be_made_is_told_and_nothing_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "file"))
    folder = RunFolder("default")
    recorder = Recorder(folder)
    recorder.handle(chunk(0, 1))
    folder.write("1", ranks=[0])
    assert folder.log_dir is None
    assert recorder.problem is not None
    assert "Set JUPYTER_DDL_RUNS to a folder" in recorder.problem


def test_a_folder_that_goes_away_is_told(folder: RunFolder) -> None:
    recorder = Recorder(folder)
    folder.path.rmdir()
    assert recorder.handle(chunk(0, 1))
    assert recorder.problem == f"{folder.path}/events.jsonl: No such file or directory"


def test_only_runs_whose_kernel_is_gone_are_taken_up(folder: RunFolder) -> None:
    folder.write("1", world_id="w", ranks=[0], session=this_process())
    assert list(unfinished("w")) == []
    folder.update(session={**this_process(), "start_ticks": 1})
    assert [found.run for found in unfinished("w")] == [folder.run]
    assert list(unfinished("another")) == []
    folder.update(outcome="finished")
    assert list(unfinished("w")) == []
    assert json.loads((folder.path / "run.json").read_text())["ranks"] == [0]


def sample(rank: int, own_s: float, input_s: float = 0.001, steps: int = 25) -> MetricsSample:
    """Return a sample of synchronous training: what a rank is faster, it waits in the exchange."""
    return MetricsSample(
        "run", rank, 1.0, 50.0, 1, steps=steps, step_s=0.1, exchange_s=0.1 - own_s, input_s=input_s, samples_per_s=100.0
    )


@pytest.mark.parametrize(("input_s", "spends_on"), [(0.001, "compute"), (0.04, "input")])
def test_a_rank_that_is_slow_for_five_seconds_is_marked_and_then_no_more(input_s: float, spends_on: str) -> None:
    stragglers = Stragglers()
    marks = []
    for slow_s in (0.06, 0.06, 0.06, 0.02):
        for rank in range(4):
            own = sample(rank, 0.02) if rank != 2 else sample(2, slow_s, input_s)
            marks.append(stragglers.handle(own))
    told = [mark for mark in marks if mark is not None]
    assert [(mark.rank, mark.is_straggler) for mark in told] == [(2, True), (2, False)]
    assert (told[0].ratio, told[0].spends_on) == (3.0, spends_on)


def test_a_straggler_spends_its_time_on_what_most_of_it_went_to_and_not_on_what_its_last_sample_shows() -> None:
    stragglers = Stragglers()
    waits, computes = sample(1, 0.09, 0.07), sample(1, 0.06, 0.001)
    marks = [stragglers.handle(one) for mine in (waits, computes) for one in (sample(0, 0.02), mine)]
    assert [(mark.rank, mark.spends_on) for mark in marks if mark is not None] == [(1, "input")]


def test_one_rank_of_two_that_takes_a_quarter_longer_is_a_straggler() -> None:
    stragglers = Stragglers()
    marks = [stragglers.handle(sample(rank, own_s)) for _ in range(3) for rank, own_s in ((0, 0.04), (1, 0.05))]
    assert [mark.rank for mark in marks if mark is not None] == [1]


def marked(samples: Iterable[MetricsSample]) -> list[tuple[int, bool]]:
    """Return which ranks are marked, and which no more, in order; check that of two ranks never both are."""
    stragglers, now, told = Stragglers(), set[int](), []
    for one in samples:
        mark = stragglers.handle(one)
        if mark is not None:
            told.append((mark.rank, mark.is_straggler))
            (now.add if mark.is_straggler else now.discard)(mark.rank)
        assert len(now) < 2
    return told


@pytest.mark.parametrize(
    ("steps", "samples", "is_marked"), [(100, 1, True), (9, 1, False), (5, 9, False), (5, 10, True)]
)
def test_ten_steps_and_five_seconds_of_them_make_a_straggler(steps: int, samples: int, *, is_marked: bool) -> None:
    told = marked(sample(rank, 0.02 * (1 + rank), steps=steps) for _ in range(samples) for rank in (0, 1))
    assert told == ([(1, True)] if is_marked else [])


def test_a_long_first_step_is_no_straggler() -> None:
    slow = MetricsSample("run", 1, 1.0, 50.0, 1, steps=1, step_s=30.0, exchange_s=0.5, samples_per_s=1.0)
    assert marked([sample(0, 0.02), slow, sample(0, 0.02), sample(1, 0.02)]) == []


def test_a_mark_stays_between_its_two_bounds() -> None:
    own_s = [0.025, 0.025, 0.025, 0.023, 0.0225, 0.023, 0.0215, 0.023, 0.023, 0.023]
    told = marked(sample(rank, slow_s if rank else 0.02) for slow_s in own_s for rank in (0, 1))
    assert told == [(1, True), (1, False)]


def test_two_ranks_that_are_slow_in_turns_are_never_both_stragglers() -> None:
    turns = [(0.02, 0.06)] * 4 + [(0.06, 0.02)] * 4 + [(0.02, 0.06)] * 4
    told = marked(sample(rank, own[rank]) for own in turns for rank in (0, 1))
    assert told == [(1, True), (1, False), (0, True), (0, False), (1, True)]
    # And where one of them does not tell of itself for a while.
    stale = [sample(0, 0.02), sample(1, 0.06), sample(1, 0.06), *[sample(0, 0.9)] * 3]
    assert marked(stale) == [(1, True), (1, False), (0, True)]


def test_noise_marks_nobody() -> None:
    draw = random.Random(1)
    noisy = (sample(rank, draw.uniform(0.03, 0.05), steps=10) for _ in range(600) for rank in (0, 1))
    # Ten minutes of a machine that others use too.
    assert marked(noisy) == []


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf"), -1.0, 1e308])
def test_a_time_that_is_none_marks_nobody_and_raises_nothing(odd: float) -> None:
    stragglers = Stragglers()
    for name in ("step_s", "exchange_s", "input_s", "at_s"):
        for rank in (0, 1):
            stragglers.handle(replace(sample(rank, 0.02), **{name: odd}))


def test_ranks_that_are_alike_or_alone_or_do_not_train_are_never_marked() -> None:
    stragglers = Stragglers()
    assert all(stragglers.handle(sample(0, 0.09)) is None for _ in range(9))
    assert all(stragglers.handle(sample(rank, 0.08)) is None for _ in range(9) for rank in (0, 1))
    assert stragglers.handle(MetricsSample("run", 2, 1.0, 50.0, 1)) is None


def test_a_summary_is_of_all_ranks_together_over_the_time_that_they_trained() -> None:
    summary = Summary()
    assert summary.fields() == {}
    for rank in (0, 1):
        summary.handle(MetricsSample("run", rank, 1.0, 1.0, 1))
        summary.handle(
            MetricsSample("run", rank, 1.0, 1.0, 1, model="m", steps=10, step_s=0.1, samples_per_s=100.0, loss=2.0)
        )
        summary.handle(
            MetricsSample("run", rank, 1.0, 1.0, 1, model="m", steps=10, step_s=0.3, samples_per_s=20.0, loss=1.0)
        )
    assert summary.fields() == {"samples_per_s": 80.0, "loss": 1.0, "model": "m"}
