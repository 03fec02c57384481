"""The file for support: what is in it, what is left out, and that it is shown first."""

from __future__ import annotations

import io
import json
import stat
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from run_folders import make_run, write_events

from jupyter_ddl import cli, doctor, paths
from jupyter_ddl.doctor import Check
from jupyter_ddl.protocol.events import RankFailed, StallReported
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.support.environment import LEFT_OUT, shown_variables

if TYPE_CHECKING:
    from pathlib import Path

RUN = "2026-11-20T18-03-07-default-3f9c"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A run whose rank 1 raised, of a cluster that is still there; the doctor's checks are quick."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setattr(doctor, "examine", lambda: iter([Check("MPI", "ok", "Open MPI 5.0.8")]))
    folder = make_run(RUN, cluster="default", world_id="w1", outcome="failed", script="train.py --key=abc")
    traceback = ("Traceback", "ValueError: \x1b[31mno\x1b[0m")
    failed = RankFailed(RUN, 1, "node-b", "ValueError", "no", traceback, released=False, at_s=1.0)
    write_events(folder, [failed, StallReported(RUN, (0, 1), 2.0, Fault("stalled", "ranks", (1,), at_s=2.0))])
    (folder / "rank-0.log").write_bytes(b"quiet\n")
    (folder / "rank-1.log").write_bytes(b"x" * 70_000 + b"the end\n")
    cluster = paths.clusters_dir() / "here-1" / "default"
    (cluster / "log").mkdir(parents=True)
    (cluster / "cluster.json").write_text(json.dumps({"world_id": "w1"}))
    (cluster / "log" / "mpiexec.log").write_text("mpiexec: said\n")
    (cluster / "log" / "link.log").symlink_to("/etc/passwd")
    return tmp_path


def held(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def test_what_it_holds(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("JUPYTER_DDL_TOKEN", "hidden-0")
    assert cli.main(["report", "--yes", "-o", "out.zip"]) == 0
    parts = held(run / "out.zip")
    assert stat.S_IMODE((run / "out.zip").stat().st_mode) == 0o600
    assert sorted(parts) == [
        *("cluster/mpiexec.log", "machine/doctor.json", "machine/doctor.txt", "machine/environment.json"),
        *("run/outcome.txt", "run/rank-0.log", "run/rank-1.log", "run/run.json", "run/stalls.txt"),
    ]
    assert "ValueError: no" in parts["run/outcome.txt"]
    assert "\x1b" not in parts["run/outcome.txt"]
    assert (len(parts["run/rank-1.log"]), parts["run/rank-1.log"][-8:]) == (65_536, "the end\n")
    assert parts["cluster/mpiexec.log"] == "mpiexec: said\n"
    assert "Open MPI 5.0.8" in parts["machine/doctor.txt"]
    assert json.loads(parts["machine/environment.json"])["NCCL_DEBUG"] == "INFO"
    assert json.loads(parts["run/run.json"])["world_id"] == "w1"
    assert not any("hidden-0" in text or "--key=abc" in text for text in parts.values())
    told = capsys.readouterr().out
    assert all(name in told for name in parts)
    assert "the end of the rank's log; a traceback quotes lines of the cell, of 70,008 bytes" in told
    # The ranks that the fault names come first.
    assert told.index("rank-1.log") < told.index("rank-0.log")


def test_the_code_where_it_is_agreed(run: Path) -> None:
    assert cli.main(["report", RUN, "--yes", "--with-code", "-o", "out.zip"]) == 0
    parts = held(run / "out.zip")
    assert parts["run/cell.py"] == "1 + 1"
    assert json.loads(parts["run/run.json"])["script"] == "train.py --key=abc"


@pytest.mark.parametrize(("answer", "is_written"), [("y\n", True), ("\n", False), ("no\n", False)])
def test_it_asks_in_a_terminal(run: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_written: bool) -> None:
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert cli.main(["report"]) == (0 if is_written else 1)
    assert (run / f"ddl-report-{RUN}.zip").exists() is is_written


def test_without_a_terminal_it_writes_nothing_unasked(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert cli.main(["report"]) == 1
    assert not list(run.glob("*.zip"))
    assert "--yes writes it" in capsys.readouterr().out


def test_a_file_that_is_there_stays(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "out.zip").write_text("mine")
    assert cli.main(["report", "--yes", "-o", "out.zip"]) != 0
    assert (run / "out.zip").read_text() == "mine"
    assert "A report is a new file. Received: out.zip, which is there. Name another" in capsys.readouterr().err
    assert cli.main(["report", "--yes", "-o", "no folder/out.zip"]) != 0
    text = "A report must be written whole. Received: no folder/out.zip: No such file or directory. Name another"
    assert text in capsys.readouterr().err


def test_a_cluster_of_the_same_name_that_is_another_world_is_left_out(run: Path) -> None:
    record = paths.clusters_dir() / "here-1" / "default" / "cluster.json"
    record.write_text(json.dumps({"world_id": "w2"}))
    cli.main(["report", "--yes", "-o", "out.zip"])
    assert not any(name.startswith("cluster/") for name in held(run / "out.zip"))


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("SLURM_JOB_ID", "12", "12"),
        ("PATH", "/usr/bin", "/usr/bin"),
        ("SLURM_JWT_SECRET", "s", LEFT_OUT),
        ("HOROVOD_SECRET_KEY", "s", LEFT_OUT),
        ("SINGULARITY_DOCKER_PASSWORD", "s", LEFT_OUT),
        ("CONDA_CHANNEL", "https://me:s@host/x", f"https://{LEFT_OUT}@host/x"),
        ("AWS_ACCESS_KEY_ID", "s", None),
        ("HOME", "/home/me", None),
    ],
)
def test_variables(name: str, value: str, shown: str | None) -> None:
    assert shown_variables({name: value}).get(name) == shown
