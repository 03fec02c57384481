"""The record of a script's run, from what its terminal reads: no rank is needed for it."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl import paths
from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.host import run_files
from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.events import MetricsSample, OutputChunk, RankFailed, RankFinished, RunFinished, RunStarted
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.protocol.host_topology import HostTopology, Interface
from jupyter_ddl.protocol.rank_answers import HostDescribed
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.runs.logs import RankLog, log_files
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.recorder import Recorder
from jupyter_ddl.runs.store import RUNNING, read_record
from jupyter_ddl.script.outcome import Ending, Outcome
from jupyter_ddl.script.recording import Recording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return tmp_path


def recording(*script: str) -> Recording:
    made = Recording(plan(2, gpus="none"), script or ("train.py",), CellOptions())
    made.begin()
    return made


def content(made: Recording) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((made.run.folder.path / "run.json").read_text())
    return loaded


def finish(made: Recording) -> None:
    for rank in range(2):
        made.take(RankFinished(made.run.id, rank, time.time(), n=1))


def test_a_script_is_named_by_its_run_and_in_it() -> None:
    made = recording("./train.py", "--epochs", "10")
    assert "-train.py-" in made.run.id
    known = content(made)
    assert (known["script"], known["arguments"]) == ("./train.py", ["--epochs", "10"])
    assert (known["ranks"], known["world_size"], known["threads"] >= 1) == ([0, 1], 2, True)
    assert (made.run.folder.path / "cell.py").read_text() == "print('hello')\n"
    record = read_record(made.run.folder.path)
    assert (record.state, record.script) == (RUNNING, "./train.py")
    # The folder is in no repository.
    assert (record.first_line, record.git_commit) == ("print('hello')", None)


def test_what_its_hosts_have_is_recorded() -> None:
    made = recording()
    for rank, host in ((1, "node-b"), (0, "node-a")):
        interfaces = (Interface("eth0", f"10.0.0.{rank}", None),)
        made.take(HostDescribed(rank, host, HostTopology((), "NVML finds none", interfaces)))
    assert content(made)["topology"] == {
        "gpus": [{"hosts": ["node-a", "node-b"], "gpus": [], "no_gpus": "NVML finds none"}],
        "interfaces": {
            host: [{"name": "eth0", "address": address, "mbit_per_s": None, "is_infiniband": False}]
            for host, address in (("node-a", "10.0.0.0"), ("node-b", "10.0.0.1"))
        },
    }


@pytest.mark.parametrize("name", ["äöü train (1).py", "a" * 200 + ".py"])
def test_a_name_that_no_id_may_hold_makes_one_all_the_same(name: str, folder: Path) -> None:
    (folder / name).touch()
    made = recording(name)
    assert made.run.folder.problem is None
    assert content(made)["script"] == name
    assert read_record(made.run.folder.path).script == name


def test_a_script_that_cannot_be_read_is_recorded_without_its_text() -> None:
    made = recording("gone.py")
    assert (made.run.folder.path / "cell.py").read_text() == ""


def test_what_ranks_are_is_written_when_all_have_said_it() -> None:
    made = recording()
    made.take(RankReady(0, 2, 0, "node-a", 11, "CPU", 1))
    assert "hosts" not in content(made)
    made.take(RankReady(1, 2, 1, "node-a", 12, "CPU", 1))
    assert content(made)["hosts"] == {"0": "node-a", "1": "node-a"}
    assert read_record(made.run.folder.path).computes_on is not None


def test_output_goes_whole_into_the_logs_and_bounded_into_the_events() -> None:
    made = recording()
    made.take_output(0, "stdout", b"one\n", b"one\n")
    made.take_output(0, "stderr", b"left out\ntwo\n", b"two\n")
    made.tick(1.0)
    made.take_output(1, "stdout", b"flood\n" * 20_000, b"flood\n" * 20_000)
    finish(made)
    made.end(Outcome(0))
    logs = log_files(made.run.folder.path)
    assert logs[0].read_bytes() == b"one\nleft out\ntwo\n"
    with RankLog(logs[0], only_stderr=True) as log:
        assert "".join(piece.text for piece in log.pieces()) == "left out\ntwo\n"
    assert logs[1].stat().st_size == 6 * 20_000
    chunks = [event for event in run_events(made.run.folder.path) if isinstance(event, OutputChunk)]
    assert [(chunk.rank, chunk.text) for chunk in chunks[:2]] == [(0, "one\n"), (0, "two\n")]
    assert len(chunks[2].text) + chunks[2].skipped_bytes == 6 * 20_000
    assert chunks[2].skipped_bytes > 0


def test_a_ranks_output_comes_before_its_end_and_the_runs_end_is_last() -> None:
    made = recording()
    made.take_output(0, "stdout", b"last\n", b"last\n")
    finish(made)
    made.end(Outcome(0))
    kinds = [type(event) for event in run_events(made.run.folder.path)]
    assert kinds == [RunStarted, OutputChunk, RankFinished, RankFinished, RunFinished]


def test_its_figures_are_summed_up() -> None:
    made = recording()
    for rank in range(2):
        sample = MetricsSample(
            made.run.id, rank, time.time(), 1.0, 1, n=1, step=10, steps=10, samples_per_s=100.0, step_s=0.1, loss=0.5
        )
        made.take(sample)
        made.take(RankFinished(made.run.id, rank, time.time(), n=2))
    made.end(Outcome(0))
    record = read_record(made.run.folder.path)
    assert (record.state, record.samples_per_s, record.loss) == ("finished", pytest.approx(200.0), 0.5)


def test_a_fault_is_kept_as_data() -> None:
    made = recording()
    made.take(RankFailed(made.run.id, 0, "node-a", "KeyError", "'x'", ("KeyError: 'x'",), False, time.time(), n=1))
    made.take(RankFailed(made.run.id, 1, "node-a", "KeyboardInterrupt", "", (), True, time.time(), n=1))
    outcome = Ending(made.run).outcome(1, "")
    made.end(outcome)
    record = read_record(made.run.folder.path)
    assert record.state == "failed"
    assert record.fault == outcome.fault
    assert outcome.report.splitlines()[-1] == "Rank 1 aborted because rank 0 raised"


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome(0), "finished"),
        (Outcome(7), "failed"),
        (Outcome(143, "", Fault("interrupted")), "interrupted"),
        (Outcome(137, "", Fault("lost", "rank", (1,))), "lost"),
    ],
)
def test_an_outcome_has_the_words_of_a_cells(outcome: Outcome, state: str) -> None:
    made = recording()
    made.end(outcome)
    assert read_record(made.run.folder.path).state == state


def test_a_disk_that_fills_is_told_once_for_each_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = recording()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_files, "append", full)
    for _ in range(3):
        made.take_output(0, "stdout", b"line\n", b"line\n")
    made.tick(1.0)
    assert capsys.readouterr().err == (
        "jupyter_ddl: the log of rank 0 ends here: No space left on device. The script continues.\n"
    )


def test_what_raises_in_the_record_stops_no_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = recording()

    def odd(*_: object) -> bool:
        raise OverflowError("odd")

    monkeypatch.setattr(Recorder, "handle", odd)
    made.take_output(0, "stdout", b"line\n", b"line\n")
    made.tick(1.0)
    made.tick(2.0)
    made.end(Outcome(0))
    assert "OverflowError: odd" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, "/proc/runs")
    made = recording()
    made.take_output(0, "stdout", b"line\n", b"line\n")
    made.tick(1.0)
    finish(made)
    made.end(Outcome(0))
    assert made.run.folder.log_dir is None
    told = capsys.readouterr().err
    assert told.count("jupyter_ddl: this run is not recorded any more: ") == 1
    assert told.count("\n") == 1


def test_signals_are_noted_by_name() -> None:
    made = recording()
    ending = Ending(made.run)
    ending.ended_by = signal.SIGHUP
    assert ending.outcome(0, "").name == "interrupted"
