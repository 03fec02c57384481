"""Recording a run, and taking one up that another kernel began."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import paths
from jupyter_ddl.events import MetricsSample, OutputChunk, RankFinished, RunFinished, RunStarted
from jupyter_ddl.runs.folder import RunFolder, this_process, unfinished
from jupyter_ddl.runs.reading import read_events
from jupyter_ddl.runs.recorder import Recorder
from jupyter_ddl.runs.stragglers import Stragglers
from jupyter_ddl.runs.summary import Summary
from jupyter_ddl.wire import as_line

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.events import Event


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
    all_of_it = second.catch_up((0, 1))
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
    folder.update(session={**this_process(), "started_s": 1.0})
    assert [found.run for found in unfinished("w")] == [folder.run]
    assert list(unfinished("another")) == []
    folder.update(outcome="finished")
    assert list(unfinished("w")) == []
    assert json.loads((folder.path / "run.json").read_text())["ranks"] == [0]


def sample(rank: int, own_s: float, input_s: float = 0.001, steps: int = 5) -> MetricsSample:
    """Return a sample of synchronous training: what a rank is faster, it waits in the exchange."""
    return MetricsSample(
        "run", rank, 1.0, 50.0, 1, steps=steps, step_s=0.1, exchange_s=0.1 - own_s, input_s=input_s, samples_per_s=100.0
    )


@pytest.mark.parametrize(("input_s", "spends_on"), [(0.001, "compute"), (0.04, "input")])
def test_a_rank_that_is_slow_for_ten_steps_is_marked_and_then_no_more(input_s: float, spends_on: str) -> None:
    stragglers = Stragglers()
    marks = []
    for slow_s in (0.06, 0.06, 0.06, 0.02):
        for rank in range(4):
            own = sample(rank, 0.02) if rank != 2 else sample(2, slow_s, input_s)
            marks.append(stragglers.handle(own))
    told = [mark for mark in marks if mark is not None]
    assert [(mark.rank, mark.is_straggler) for mark in told] == [(2, True), (2, False)]
    assert (told[0].ratio, told[0].spends_on) == (3.0, spends_on)


def test_one_rank_of_two_that_takes_a_quarter_longer_is_a_straggler() -> None:
    stragglers = Stragglers()
    marks = [stragglers.handle(sample(rank, own_s)) for _ in range(3) for rank, own_s in ((0, 0.04), (1, 0.05))]
    assert [mark.rank for mark in marks if mark is not None] == [1]


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
