"""A limit of open files that ranks would reach is said before any of them starts."""

from __future__ import annotations

import errno
import resource
import socket
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cli import main
from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host import preflight

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system allow 1,024 files."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))


@pytest.mark.usefixtures("few_files")
def test_as_many_ranks_as_the_limit_allows_may_start() -> None:
    preflight.check_open_files(154, 6)
    rule = (
        r"What serves the ranks must be able to open 1,030 files\. Received: a limit of 1,024 \(`ulimit -n`\), and 155 "
        r"ranks\. Raise the limit where Jupyter, or the script, is started: `ulimit -n 4096`; or start fewer ranks\."
    )
    with pytest.raises(HostUnfit, match=rule):
        preflight.check_open_files(155, 6)
    with pytest.raises(HostUnfit, match="1,030 files"):
        preflight.check_surroundings(155)


@pytest.mark.usefixtures("few_files")
def test_a_script_on_a_hundred_thousand_ranks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    assert main(["run", "-n", "100000", "--gpus", "none", "train.py"]) == 1
    said = capsys.readouterr().err
    assert "must be able to open 300,100 files. Received: a limit of 1,024 (`ulimit -n`), and 100,000 ranks." in said
    assert said.count("\n") == 1


def test_no_more_files_is_no_fault_of_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", none)
    with pytest.raises(HostUnfit, match=r"able to open 100 files\. Received: Too many open files\. Raise the limit"):
        preflight.check_loopback()
