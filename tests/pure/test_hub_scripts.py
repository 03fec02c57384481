"""Scripts that begin and end while a browser is connected: no kernel reports them, their folders do."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import loops
import pytest
from run_folders import make_run, own_session

from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.runs.store import find
from jupyter_ddl.server import scripts
from jupyter_ddl.server.scripts import Scripts

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.hub_messages import RunNotice

LOG = logging.getLogger("tests")


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))


def run_id(number: int = 1, age_s: float = 0.0) -> str:
    began = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(time.time() - age_s))
    return f"{began}-train.py-{number:08x}"


def script(run: str, **content: Any) -> Path:
    return make_run(run, **{"script": "train.py", "session": own_session(), **content})


def update(folder: Path, **content: Any) -> None:
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | content))


def looking(told: list[RunNotice] | None = None) -> Scripts:
    return Scripts(ThreadPoolExecutor(1), (told if told is not None else []).append, LOG)


def test_a_script_is_noticed_when_it_begins_and_when_it_ends() -> None:
    looks = looking()
    assert looks.look() == []
    run = run_id()
    folder = script(run)
    [begun] = looks.look()
    assert (begun.kernel, begun.run, begun.state, begun.ranks) == ("train.py", run, "running", "0-1")
    assert looks.look() == []
    fault = Fault("raised", "ranks", (1,), "host", 1.0, facts=Facts(world_size=2, error="KeyError", message="'x'"))
    update(folder, outcome="failed", seconds=2.0, fault=asdict(fault))
    [over] = looks.look()
    assert (over.state, over.seconds) == ("failed", 2.0)
    assert over.fault is not None
    assert "KeyError" in over.fault.text
    assert looks.look() == []


def test_one_that_was_over_before_the_next_look_is_noticed_too() -> None:
    looks = looking()
    assert looks.look() == []
    script(run_id(), outcome="finished", seconds=0.5)
    assert [notice.state for notice in looks.look()] == ["running", "finished"]


def test_a_folder_without_its_record_is_looked_at_again() -> None:
    looks = looking()
    assert looks.look() == []
    run = run_id()
    folder = make_run(run)
    assert looks.look() == []
    folder.joinpath("run.json").write_text(
        json.dumps({"script": "train.py", "session": own_session(), "start_s": time.time(), "ranks": [0]})
    )
    assert [notice.state for notice in looks.look()] == ["running"]


def test_cells_old_runs_and_deleted_ones_are_not_noticed() -> None:
    make_run(run_id(1), session=own_session())
    script(run_id(2, age_s=3600.0), start_s=time.time() - 3600.0, outcome="finished", seconds=1.0)
    looks = looking()
    assert looks.look() == []
    folder = script(run_id(3))
    assert len(looks.look()) == 1
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert looks.look() == []


def test_what_runs_when_the_first_browser_comes_is_followed_to_its_end() -> None:
    folder = script(run_id(age_s=3600.0), start_s=time.time() - 3600.0)
    looks = looking()
    assert [notice.state for notice in looks.look()] == ["running"]
    update(folder, outcome="finished", seconds=3600.0)
    assert [notice.state for notice in looks.look()] == ["finished"]


def test_one_whose_terminal_was_killed_is_over() -> None:
    looks = looking()
    assert looks.look() == []
    gone = {**own_session(), "pid": 1, "started_s": 1.0}
    script(run_id(), session=gone)
    assert [notice.state for notice in looks.look()] == ["running", "interrupted"]


def test_nothing_is_looked_at_unless_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "INTERVAL_S", 0.01)

    async def follow() -> None:
        told: list[RunNotice] = []
        looks = looking(told)
        looks.begin()
        looks.begin()
        assert len(asyncio.all_tasks()) == 2
        folder = script(run_id())
        while not told:
            await asyncio.sleep(0.01)
        update(folder, outcome="finished", seconds=1.0)
        while len(told) < 2:
            await asyncio.sleep(0.01)
        looks.rest()
        looks.rest()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        assert [notice.state for notice in told] == ["running", "finished"]

    loops.run(follow())


def test_a_look_that_fails_costs_that_look_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scripts, "INTERVAL_S", 0.01)
    failing = 0

    def failing_find(run: str) -> Any:
        nonlocal failing
        failing += 1
        if failing in (1, 2, 3, 5):
            raise RecursionError
        return find(run)

    async def follow() -> None:
        told: list[RunNotice] = []
        looks = looking(told)
        looks.begin()
        monkeypatch.setattr(scripts, "find", failing_find)
        folder = script(run_id())
        while failing < 7:
            await asyncio.sleep(0.01)
        update(folder, outcome="finished", seconds=1.0)
        while len(told) < 2:
            await asyncio.sleep(0.01)
        looks.rest()
        # What had begun is noticed by the first look that succeeds.
        assert [notice.state for notice in told] == ["running", "finished"]

    loops.run(follow())
    # Once in a row.
    said = "jupyter_ddl: scripts cannot be looked at; they are noticed once they can"
    assert [record.message for record in caplog.records] == [said, said]


def test_what_is_remembered_of_runs_is_bounded_by_those_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "_CROWDED", 10)
    looks = looking()
    looks.look()
    running = script(run_id(99))
    for number in range(30):
        folder = script(run_id(number), outcome="finished", seconds=1.0)
        assert len(looks.look()) >= 2
        shutil.rmtree(folder)
        assert len(looks._seen) < 10
    assert looks._running == {running.name}
    kept = [script(run_id(number), outcome="finished", seconds=1.0) for number in range(100, 130)]
    assert len(looks.look()) == 2 * len(kept)
    assert looks._seen >= {folder.name for folder in kept}
    # None is noticed twice.
    assert looks.look() == []
