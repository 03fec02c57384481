"""`jupyter ddl install-ddlrun` writes IBM's command, and options that mean nothing today are named."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.cli import main

if TYPE_CHECKING:
    import pytest


def test_the_command_is_written_where_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install-ddlrun", str(tmp_path)]) == 0
    file = tmp_path / "ddlrun"
    assert os.access(file, os.X_OK)
    assert capsys.readouterr().out == f"{file} runs jupyter ddl run. Its folder is not on PATH: {tmp_path}\n"
    # It can be written again.
    assert main(["install-ddlrun", str(tmp_path)]) == 0
    shown = subprocess.run([file, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert shown.startswith("usage: jupyter ddl run ")
    # Nothing puts it on PATH unasked.
    assert not (Path(sysconfig.get_path("scripts")) / "ddlrun").exists()


def test_another_programs_command_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ddlrun").write_text("#!/bin/sh\necho IBM\n")
    assert main(["install-ddlrun", str(tmp_path)]) == 1
    assert "Another program's ddlrun is left alone. Received: " in capsys.readouterr().err
    assert main(["install-ddlrun", str(tmp_path / "none")]) == 1
    assert "ddlrun goes into a folder that is there. Received: " in capsys.readouterr().err
    assert (tmp_path / "ddlrun").read_text().endswith("echo IBM\n")


def test_an_option_that_means_nothing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--tcp", "--skipchecks", "no_such.py"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        "NOTE: --tcp has no effect here: MPI chooses the network.",
        "NOTE: --skipchecks has no effect here: hosts are looked at each time.",
    ]


def test_a_folder_that_takes_no_file_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install-ddlrun", "/proc"]) == 1
    said = "ddlrun goes into a folder that you may write to. Received: /proc (No such file or directory). Name another"
    assert said in capsys.readouterr().err
