"""`jupyter ddl run`: what it refuses before it starts anything, and what it makes of how ranks ended."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cli import main
from jupyter_ddl.protocol.events import RankFailed, RankFinished
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.script.outcome import Ending, Outcome

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["run", *arguments]) == 1
    return capsys.readouterr().err


def test_a_script_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = "jupyter ddl: The script must exist. Received: trian.py. Correct its name; this folder is"
    assert told(capsys, "-n", "2", "trian.py", "-x").startswith(rule)


PROFILES = """
[small]
limits = {ranks = 2}

[boxed]
container = "ddl.sif"
"""


def test_a_profile_is_kept_to(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder / "config"))
    (folder / "config" / "jupyter_ddl.d").mkdir(parents=True)
    (folder / "config" / "jupyter_ddl.d" / "mine.toml").write_text(PROFILES)
    assert "Received: 'big'" in told(capsys, "--profile", "big", "train.py")
    assert "The profile small allows at most 2 ranks. Received: 3 ranks." in told(
        capsys, "--profile", "small", "-n", "3", "--gpus", "none", "train.py"
    )
    no_image = "--container names an image that is here: a .sif file, or a folder. Received:"
    assert f"{no_image} ddl.sif." in told(capsys, "--profile", "boxed", "train.py")
    assert f"{no_image} gone.sif." in told(capsys, "--profile", "boxed", "--container", "gone.sif", "train.py")


def test_no_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "The script must be named. Received: nothing. Write: jupyter ddl run -n 2 SCRIPT.py" in told(capsys)
    assert "Received: nothing." in told(capsys, "-n", "2", "--")


def test_what_is_no_python_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.sh").touch()
    (folder / "train.ipynb").touch()
    rule = "What runs on the ranks must be a Python script. Received:"
    assert f"{rule} train.sh. Pass a file whose name ends in .py." in told(capsys, "train.sh")
    notebook = told(capsys, "train.ipynb")
    assert f"{rule} train.ipynb. Begin its cells with %%distributed, or convert it: jupyter nbconvert" in notebook
    python = told(capsys, "-n", "2", "python3", "-m", "train")
    assert f"{rule} python3 -m. Name the file: jupyter ddl run [python] SCRIPT.py [ARGS ...]" in python


def test_numbers_and_variables_are_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "n must be a whole number of at least 1. Received: n=0." in told(capsys, "-n", "0", "train.py")
    threads = told(capsys, "--threads", "-1", "train.py")
    assert "threads must be a whole number of at least 1. Received: threads=-1." in threads
    assert "Received: PATH. Write --env NAME=VALUE." in told(capsys, "--env", "PATH", "train.py")


def test_an_option_that_does_not_exist(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["run", "--np", "2", "train.py"])
    assert raised.value.code == 2
    text = capsys.readouterr().err
    assert "takes what its usage says. Received: unrecognized arguments: --np" in text
    assert "usage: jupyter ddl run" in text


@pytest.mark.parametrize(
    ("line", "used"), [("show a b", "show"), ("doctor x", "doctor"), ("bench scaling -n 1 x", "bench scaling")]
)
def test_what_is_left_over_is_refused_with_the_usage_of_its_subcommand(
    line: str, used: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(line.split())
    assert capsys.readouterr().err.startswith(f"jupyter ddl: jupyter ddl {used} takes what its usage says. Received: ")


def test_a_module_is_no_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # argparse took -m for the beginning of mpirun's -map-by.
    said = "has no such option. Received: -m. Name the module's file: jupyter ddl run -n 2 PACKAGE/MODULE.py"
    assert said in told(capsys, "-m", "package.train")


def test_the_command_for_ssh_must_be_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, "--ssh", "no-such-ssh -v", "-H", "node-of-a-test:1", "train.py")
    received = "no-such-ssh (No such file or directory). Install it, or name another: --ssh COMMAND."
    assert said.endswith(f"The command that reaches a host must run here. Received: {received}\n")


def failed(rank: int, name: str, message: str = "", *, released: bool = False, at_s: float = 0.0) -> RankFailed:
    return RankFailed("script", rank, "host", name, message, (f"{name}: {message}",), released, at_s)


def outcome(*events: RankFailed | RankFinished, status: int = 1, n: int = 2, interrupted: bool = False) -> Outcome:
    run = Run(RunFolder("script"), tuple(range(n)), n)
    ending = Ending(run)
    ending.interrupted = interrupted
    for event in events:
        run.handle(event)
    return ending.outcome(status, "")


def test_the_first_cause_is_told_first() -> None:
    result = outcome(
        failed(0, "HorovodInternalError", released=True, at_s=3.0),
        failed(2, "KeyError", "'x'", at_s=2.0),
        failed(1, "ValueError", "bad", at_s=1.0),
        n=3,
    )
    assert result.status == 1
    assert result.report.splitlines() == [
        *("Rank 1 of 3 on host", "ValueError: bad", ""),
        *("Rank 2 of 3 on host", "KeyError: 'x'", ""),
        "Rank 0 aborted because rank 1 raised",
    ]


def test_all_ranks_that_exit_alike_have_nothing_to_tell() -> None:
    assert outcome(failed(0, "SystemExit", "3"), failed(1, "SystemExit", "3"), status=3) == Outcome(3)


def test_an_interrupt_is_told_once_also_where_ranks_died_of_it() -> None:
    interrupts = [failed(rank, "KeyboardInterrupt", released=True) for rank in range(2)]
    assert outcome(*interrupts, interrupted=True).report.count("KeyboardInterrupt") == 1
    died = outcome(status=137, interrupted=True)
    assert (died.status, died.report) == (130, "KeyboardInterrupt")
    assert died.fault is not None
    assert died.fault.kind == "interrupted"
    finished = [RankFinished("script", rank, 0.0) for rank in range(2)]
    assert outcome(*finished, status=0, interrupted=True) == Outcome(0)


def test_a_signal_is_the_status() -> None:
    ending = Ending(Run(RunFolder("script"), (0, 1), 2))
    ending.ended_by = signal.SIGTERM
    ended = ending.outcome(0, "")
    assert (ended.status, ended.report) == (143, "Ended by SIGTERM.")
    assert ended.fault is not None
    assert ended.fault.facts.signum == signal.SIGTERM


def test_a_host_that_is_unfit(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody, root included, can make a file there.
    monkeypatch.setenv("TMPDIR", "/proc")
    text = told(capsys, "-n", "2", "--gpus", "none", "train.py")
    assert text.startswith(
        "jupyter ddl: The folder of temporary files, which MPI uses, must take 1 MiB. Received: /proc ("
    )
    assert text.endswith("Make room there, or set TMPDIR to a folder elsewhere.\n")
