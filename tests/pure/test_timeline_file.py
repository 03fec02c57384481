"""The timeline of several lives of Horovod in one file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.engine.timelines import timeline_file
from jupyter_ddl.engine.timelines.timeline_file import TimelineFile

if TYPE_CHECKING:
    from pathlib import Path


def life(began_us: int, *tensors: str) -> str:
    """Return what Horovod 0.28.1 writes: see `WriteAtFileStart` and `DoWriteEvent` in timeline.cc."""
    items = [
        f'{{"name": "process_name", "ph": "M", "pid": 0, "args": {{"start_time_since_epoch_in_micros":{began_us}}}}}',
        '{"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}}',
    ]
    for pid, name in enumerate(tensors, 1):
        items += [
            f'{{"name": "process_name", "ph": "M", "pid": {pid}, "args": {{"name": "{name}"}}}}',
            f'{{"name": "process_sort_index", "ph": "M", "pid": {pid}, "args": {{"sort_index": {pid}}}}}',
            f'{{"ph": "B", "name": "ALLREDUCE", "ts": {pid * 10}, "pid": {pid}}}',
            f'{{"ph": "E", "ts": {pid * 10 + 5}, "pid": {pid}}}',
        ]
    return "[\n" + ",\n".join([*items, '{"ph": "i", "name": "CYCLE_START", "ts": 99, "s": "g"}']) + "]"


def of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return events


def test_lives_are_joined_on_one_clock_with_one_process_a_tensor(tmp_path: Path) -> None:
    file = TimelineFile(str(tmp_path / "timeline.json"))
    file.begin()
    assert of(file.path) == []
    for text in (life(1000, "a", "b"), "", life(5000, "b", "c"), life(9000)):
        file.part.write_text(text)
        file.join()
        assert not file.part.exists()
        of(file.path)
    file.join()  # on a rank that is no coordinator, or with no life since
    events = of(file.path)
    names = {event["pid"]: event["args"]["name"] for event in events if "name" in event.get("args", {})}
    assert names == {1: "a", 2: "b", 3: "c"}
    assert [(event["ts"], names[event["pid"]]) for event in events if event.get("ph") == "B"] == [
        (10, "a"),
        (20, "b"),
        (4010, "b"),
        (4020, "c"),
    ]
    assert [event["ts"] for event in events if event.get("ph") == "i"] == [99, 4099, 8099]
    assert [event["args"]["sort_index"] for event in events if event.get("name") == "process_sort_index"] == [
        0,
        1,
        2,
        3,
    ]
    assert sum("start_time_since_epoch_in_micros" in event.get("args", {}) for event in events) == 1


def test_a_new_process_begins_the_file_anew(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_text("[\n{}]")
    TimelineFile(str(path)).begin()
    assert of(path) == []


@pytest.mark.parametrize("part", ['[\n{"ph": "B"', "[1]"])
def test_what_cannot_be_joined_is_said_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    file = TimelineFile(str(tmp_path / "timeline.json"))
    for text in (life(1000, "a"), part, life(2000, "a")):
        file.part.write_text(text)
        file.join()
    assert [event["ts"] for event in of(file.path) if event.get("ph") == "B"] == [10, 1010]
    said = capsys.readouterr().err
    assert said.startswith(f"WARNING: Horovod's timeline {file.path} lacks this cell: ")
    assert said.count("WARNING") == 1


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TimelineFile(str(tmp_path / "none" / "timeline.json")).begin()
    assert "lacks this cell: FileNotFoundError" in capsys.readouterr().err


def test_which_file_is_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for value, wanted in (("", None), ("DYNAMIC", None), ("a.json", str(tmp_path / "a.json")), ("/b", "/b")):
        monkeypatch.setenv("HOROVOD_TIMELINE", value)
        assert timeline_file.wanted() == wanted
