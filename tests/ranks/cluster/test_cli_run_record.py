"""The run of a script is a run: it is listed, has its logs and figures, and is followed while it runs."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from ranks.kernels import eventually
from ranks.script_jobs import COMMAND, RANK, TIMEOUT_S, run, said, started

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.protocol.events import MetricsSample, OutputChunk, RankFailed, RankFinished, RunFinished
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.runs.reading import read_events, run_events
from jupyter_ddl.runs.store import CUT_OFF, RUNNING, RunRecord, newest_first, read_record
from jupyter_ddl.server.scripts import Scripts
from jupyter_ddl.server.tail import Tail

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

TRAINS = (
    RANK
    + """
import sys, time, pathlib
import jupyter_ddl
print("ready", flush=True)
sys.stderr.write("to stderr\\n")
go_on = pathlib.Path("go on")
step = 0
while step < 30 or (sys.argv[1:] == ["wait"] and not go_on.exists()):
    step += 1
    jupyter_ddl.report(samples=32, loss=1.0 / step)
    time.sleep(0.05)
print("done")
"""
)


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))


def newest() -> RunRecord:
    return next(newest_first())


def content(record: RunRecord) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((record.path / "run.json").read_text())
    return loaded


def ddl(*arguments: str) -> str:
    """Return what `jupyter ddl ...` prints."""
    with redirect_stdout(StringIO()) as printed:
        assert main(arguments) == 0
    return printed.getvalue()


def assert_events_of_a_cell() -> None:
    events = list(run_events(newest().path))
    kinds = [type(event).__name__ for event in events]
    assert (kinds[0], kinds[-1]) == ("RunStarted", "RunFinished")
    assert {event.run for event in events} == {newest().run}  # type: ignore[union-attr]
    for rank in range(2):
        mine = [event for event in events if getattr(event, "rank", None) == rank]
        assert isinstance(mine[-1], RankFinished)
        assert sum(isinstance(event, MetricsSample) and event.step is not None for event in mine) >= 1
        log = newest().path / f"rank-{rank}.log"
        chunks = [event for event in mine if isinstance(event, OutputChunk)]
        assert chunks[-1].end_bytes == log.stat().st_size
        own = list(read_events(log.with_suffix(".events.jsonl")))
        assert [event.n for event in own] == list(range(1, len(own) + 1))  # type: ignore[union-attr]


def test_a_script_is_listed_with_its_logs_and_figures_and_its_events_are_a_cells(tmp_path: Path) -> None:
    finished = run(tmp_path, TRAINS, "two words")
    assert finished.returncode == 0
    assert_events_of_a_cell()
    record = newest()
    assert (record.state, record.ranks, record.world_size) == ("finished", (0, 1), 2)
    assert record.script == "script.py"
    assert "-script.py-" in record.run
    assert record.samples_per_s is not None
    assert record.samples_per_s == pytest.approx(2 * 32 / 0.05, rel=0.5)
    assert record.loss == pytest.approx(1 / 30)
    assert record.computes_on is not None
    known = content(record)
    assert known["arguments"] == ["two words"]
    assert known["hosts"].keys() == known["devices"].keys() == {"0", "1"}
    assert known["topology"]["interfaces"].keys() == set(known["hosts"].values())
    assert (record.path / "cell.py").read_text() == TRAINS
    [line] = [line for line in ddl("runs").splitlines() if record.run in line]
    assert " 0-1 " in line
    assert "finished" in line
    assert ddl("logs", record.run, "-r", "1").splitlines() == ["[1] ready", "[1] to stderr", "[1] done"]
    assert ddl("logs", record.run, "--stderr").splitlines() == ["[0] to stderr", "[1] to stderr"]
    shown = ddl("show", record.run)
    for rank in range(2):
        assert said(rank, shown) == said(rank, finished.stdout) == ["ready", "done"]


def test_it_is_followed_while_it_goes_on_and_noticed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    looks = Scripts(None, lambda _: None, None)  # type: ignore[arg-type]
    with started(tmp_path, TRAINS.replace('sys.argv[1:] == ["wait"]', "True")) as job:
        job.wait_for("ready")
        record = newest()
        assert record.state == RUNNING
        assert [notice.state for notice in looks.look()] == ["running"]
        tail = Tail(record.path)

        def has_figures() -> bool:
            while tail.read_on():
                pass
            return tail._figures.means() is not None and tail.next > 4

        assert eventually(has_figures)
        assert not tail.is_over
        (tmp_path / "go on").touch()
        assert job.process.wait(TIMEOUT_S) == 0
        while tail.read_on():
            pass
        assert tail.is_over
        assert [notice.state for notice in looks.look()] == ["finished"]


def test_a_rank_that_is_busy_is_interrupted_and_how_it_failed_is_shown_again(tmp_path: Path) -> None:
    script = RANK + (
        "import time\n"
        "if rank == 1: raise ValueError('no such thing')\n"
        "try: time.sleep(600)\n"
        "finally: print('cleaned up')\n"
    )
    finished = run(tmp_path, script)
    assert finished.returncode == 1
    assert finished.stdout == "[0]   cleaned up\n"
    assert finished.stderr.endswith("ValueError: no such thing\n\nRank 0 aborted because rank 1 raised\n")
    record = newest()
    assert record.state == "failed"
    assert record.fault is not None
    assert (record.fault.kind, record.fault.ranks) == ("raised", (1,))
    failures = [event for event in run_events(record.path) if isinstance(event, RankFailed)]
    assert [(one.rank, one.released) for one in sorted(failures, key=lambda one: one.rank)] == [(0, True), (1, False)]
    logs = [(record.path / f"rank-{rank}.log").read_text() for rank in range(2)]
    assert logs[0] == "cleaned up\n"
    assert logs[1].startswith("Traceback (most recent call last):\n")
    assert logs[1].endswith("ValueError: no such thing\n")
    # What the terminal said, below the note on its ranks.
    told = finished.stderr.partition("\n")[2]
    assert ddl("show", record.run).endswith(told)


def test_a_lost_rank_is_named_and_recorded_as_such(tmp_path: Path) -> None:
    dies = "import os, time\nprint('last words', flush=True)\nif rank == 1: os.kill(os.getpid(), 9)\ntime.sleep(600)\n"
    finished = run(tmp_path, RANK + dies)
    assert finished.returncode == 137
    told = f"rank 1 on {socket.gethostname()} was ended by signal 9 (Killed)"
    assert f"Ranks must live to the end of the script. Received: {told}" in finished.stderr
    record = newest()
    assert record.state == "lost"
    [lost] = [event for event in run_events(record.path) if isinstance(event, RankLost)]
    assert (lost.rank, lost.fault.facts.signum) == (1, 9)
    shown = ddl("show", record.run)
    assert f"Ranks must live to the end of the script. Received: {told}" in shown
    assert said(1, shown)[0] == "last words"


@pytest.mark.parametrize(
    ("signum", "status"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGKILL, -9)],
)
def test_a_signal_is_how_it_ended(tmp_path: Path, signum: signal.Signals, status: int) -> None:
    with started(tmp_path, "import time\nprint('ready', flush=True)\ntime.sleep(600)\n") as job:
        job.wait_for("ready")
        job.process.send_signal(signum)
        assert job.process.wait(TIMEOUT_S) == status
    record = newest()
    assert record.state == (CUT_OFF if signum == signal.SIGKILL else "interrupted")
    assert "ready" in ddl("logs", record.run)
    if signum == signal.SIGKILL:
        assert ddl("show", record.run).endswith("The terminal that ran it ended before it did.\n")


def test_a_reader_that_has_enough_ends_it_as_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\nwhile True:\n  print('on and on')\n  time.sleep(0.01)\n")
    command = " ".join([*COMMAND, "-n", "2", "script.py"])
    finished = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "on and on" in finished.stdout
    assert finished.returncode == 128 + signal.SIGPIPE
    assert "Traceback" not in finished.stderr
    assert newest().state == "interrupted"


def test_a_script_that_exits_with_a_status_has_failed(tmp_path: Path) -> None:
    assert run(tmp_path, "import sys\nsys.exit(7)\n").returncode == 7
    assert newest().state == "failed"


def test_a_folder_that_cannot_be_made_stops_no_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, "/proc/runs")
    finished = run(tmp_path, "print('a line')\n")
    told = "jupyter_ddl: this run is not recorded any more: jupyter_ddl must be able to write to its folder."
    assert finished.stderr.count(told) == 1
    assert finished.returncode == 0
    for rank in range(2):
        assert said(rank, finished.stdout) == ["a line"]


def test_a_full_disk_stops_no_script(tmp_path: Path, small_disk: Path) -> None:
    finished = run(tmp_path, RANK + "for i in range(20_000): print('line', i, 'of', rank)\n")
    assert finished.returncode == 0
    for rank in range(2):
        assert said(rank, finished.stdout)[-1] == f"line 19999 of {rank}"
    told = [line for line in finished.stderr.splitlines() if "No space left on device" in line]
    assert any(line.endswith("ends here: No space left on device. The script continues.") for line in told)
    assert sum("this run is not recorded any more" in line for line in told) == 1
    # Each log, each rank's events and the record itself say so once at most.
    assert len(told) <= 5


def test_a_flood_is_bounded_in_the_events_and_whole_in_the_log(tmp_path: Path) -> None:
    began_s = time.monotonic()
    finished = run(tmp_path, "for line in range(200_000): print('line', line)\n", "-n1")
    assert finished.returncode == 0
    assert time.monotonic() - began_s < TIMEOUT_S
    record = newest()
    wanted = "".join(f"line {line}\n" for line in range(200_000))
    assert (record.path / "rank-0.log").read_text() == wanted
    chunks = [event for event in run_events(record.path) if isinstance(event, OutputChunk)]
    assert sum(len(chunk.text) + chunk.skipped_bytes for chunk in chunks) == len(wanted)
    assert isinstance(list(run_events(record.path))[-1], RunFinished)
    assert read_record(record.path).state == "finished"
