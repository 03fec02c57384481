"""What an analysis says of timelines whose figures are known, as Horovod writes them: whole, cut off, large."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import cli
from jupyter_ddl.commands.timeline import steps_in
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.timeline import trace_file
from jupyter_ddl.timeline.analysis import analyse
from jupyter_ddl.timeline.record import analysis_record
from jupyter_ddl.timeline.tensors import bus_factor
from jupyter_ddl.timeline.text import analysis_text
from tests.timelines import event, written

if TYPE_CHECKING:
    from pathlib import Path


def test_each_quantity_of_a_step(tmp_path: Path) -> None:
    found = analyse(written(tmp_path / "timeline.json", 5))
    assert (found.steps, found.ranks, found.is_cut_off, found.began_s) == (4, 2, False, 1.0)
    expected = {
        "step_us": 10_000,
        "hidden_us": 700,
        "exposed_us": 1500,
        "collective_us": 1000,
        "copies_us": 400,
        "queue_us": 100,
    }
    assert {name: found.median_us(name) for name in expected} == expected
    # Rank 0 handed its last tensor over at 5.5 ms, rank 1 at 6; the step before ended at 7.5.
    assert {rank: set(us) for rank, us in found.compute_us.items()} == {0: {8000.0}, 1: {8500.0}}
    assert {rank: set(us) for rank, us in found.wait_us.items()} == {0: {500.0}, 1: {0.0}}


def test_compute_wait_and_exposed_exchange_are_the_step_and_both_parts_the_exchange(tmp_path: Path) -> None:
    found = analyse(written(tmp_path / "timeline.json", 6, {2: 50_000}), range(5))
    for number, step_us in enumerate(found.columns["step_us"]):
        for rank in (0, 1):
            parts = found.compute_us[rank][number] + found.wait_us[rank][number] + found.columns["exposed_us"][number]
            assert parts == pytest.approx(step_us)
    for one in found.kept:
        assert one.hidden_us + one.exposed_us == one.exchange_us
        assert one.collective_us + one.copies_us + one.queue_us == pytest.approx(one.exposed_us)
    assert sum(found.columns["step_us"]) == max(one.end_us for one in found.kept) - 7500


def test_a_late_rank_is_named_with_step_and_tensor(tmp_path: Path) -> None:
    found = analyse(written(tmp_path / "timeline.json", 6, {3: 50_000}))
    slowest = found.slowest()
    assert slowest is not None
    rank, late = slowest
    assert rank == 1
    assert late.worst is not None
    number, worst = late.worst
    assert (number, worst.rank, worst.tensor) == (2, 1, "b")
    assert worst.by_us == 50_500
    assert "rank 1, 50.5 ms of it in step 3, for b." in analysis_text(found, "run")


def test_tensors_in_one_buffer_share_its_bandwidth(tmp_path: Path) -> None:
    found = analyse(written(tmp_path / "timeline.json", 5))
    tensors = {one.name: one for one in found.tensors}
    assert {name: (one.count, one.bytes, one.fused) for name, one in tensors.items()} == {
        "a": (5, 4000, 0),
        "b": (5, 4000, 5),
        "c": (5, 4000, 5),
    }
    # 8,000 bytes in a millisecond; on two ranks each byte crosses a link once.
    assert tensors["b"].bus_bytes_per_s(2) == pytest.approx(8e6)
    assert tensors["a"].bus_bytes_per_s(2) == pytest.approx(4000 / 600e-6)
    assert tensors["a"].bus_bytes_per_s(None) is None
    assert bus_factor("ALLREDUCE", 4) == 1.5
    assert bus_factor("ALLGATHER", 4) == 0.75
    assert bus_factor("BROADCAST", 4) == 1


@pytest.mark.parametrize("end", ["", ",", ',{"ph": "B", "na', ',{"ph": "E", "ts": 1, "pid": 1, "args": {"dtype": "fl'])
def test_a_file_that_is_cut_off_is_read_up_to_there(tmp_path: Path, end: str) -> None:
    found = analyse(written(tmp_path / "timeline.json", 5, end=end))
    assert found.is_cut_off
    assert found.steps == 4
    assert "cut off" in analysis_text(found, "run")


@pytest.mark.parametrize("text", ["", "{}", "no", "[{]", '[{"ph": 1},{"ph": 2}]'])
def test_what_is_no_timeline_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "timeline.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="A timeline is a list of events"):
        analyse(path)
    with pytest.raises(InvalidInput, match="can be read"):
        analyse(tmp_path / "none.json")


def test_one_without_steps_says_so(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_text("[\n]\n")
    assert "no steps, no collective" in analysis_text(analyse(path), "run")


def test_what_comes_once_an_epoch_belongs_to_no_step(tmp_path: Path) -> None:
    other_pid = 9
    path = written(tmp_path / "timeline.json", 8)
    text = path.read_text()
    other = ",".join(
        [
            event(name="process_name", ph="M", pid=other_pid, args={"name": "metrics"}),
            event(ph="B", name="NEGOTIATE_ALLREDUCE", ts=80_000, pid=other_pid),
            event(ph="E", ts=80_001, pid=other_pid),
            event(ph="B", name="ALLREDUCE", ts=80_001, pid=other_pid),
            event(ph="E", ts=90_000, pid=other_pid),
        ]
    )
    path.write_text(text[:-1] + "," + other + "]")
    found = analyse(path)
    assert (found.steps, found.others) == (7, 1)
    assert set(found.columns["step_us"]) == {10_000.0}


def test_a_large_file_is_read_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "_PIECE", 1 << 16)
    path = written(tmp_path / "timeline.json", 3_000)
    tracemalloc.start()
    found = analyse(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.steps == 2_999
    assert most < path.stat().st_size / 4


def test_the_record_is_json_and_has_the_steps_that_were_asked_for(tmp_path: Path) -> None:
    found = analyse(written(tmp_path / "timeline.json", 10), range(2, 5))
    record = json.loads(json.dumps(analysis_record(found)))
    assert [one["number"] for one in record["by_step"]] == [2, 3, 4]
    assert [one["tensor"] for one in record["by_step"][0]["collectives"]] == ["a", "b", "c"]
    assert record["figures"]["step_us"] == {"median": 10_000, "mean": 10_000, "total": 90_000}
    assert [after["begin_us"] - before["begin_us"] for before, after in pairwise(record["by_step"])] == [10_000, 10_000]


def test_steps_are_shown_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "timeline.json", 6, {3: 50_000})
    assert cli.main(["timeline", str(path), "--steps", "2-3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("step  "))
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == ["2", "3"]
    assert lines[at + 2].endswith("rank 1 by 50.5 ms, b")


def test_of_tensors_in_the_cache_no_rank_is_called_the_last(tmp_path: Path) -> None:
    """As a whole file is: Horovod notes the ranks' moments in the first two steps only."""
    path = written(tmp_path / "timeline.json", 6)
    marks = 0
    kept = []
    for line in path.read_text().replace("},{", "},\n{").splitlines():
        marks += '"ph": "X"' in line
        if '"ph": "X"' not in line or marks <= 12:
            kept.append(line)
    path.write_text("\n".join(kept))
    found = analyse(path)
    assert (found.ranks, found.knows_ranks, set(found.compute_us)) == (2, False, {0})
    text = analysis_text(found, "run")
    assert "of 5 steps" not in text
    assert "Horovod's response cache leaves the others out" in text
    assert analysis_record(found)["by_rank"]["0"]["last"] is None


@pytest.mark.parametrize("text", ["", "0", "0-3", "5-3", "1-2000", "a", "1-2-3", "-4"])
def test_steps_that_are_none_are_one_clear_error(text: str) -> None:
    assert (steps_in("5"), steps_in(" 5-7 "), steps_in(None)) == (range(4, 5), range(4, 7), range(0))
    with pytest.raises(InvalidInput, match="counted from 1"):
        steps_in(text)
