"""Options whose values are options: as the documentation writes them, in a shell and in a magic."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cli import command_parser, main
from jupyter_ddl.kernel.magics.ddl_parser import ddl_parser

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("between", [" ", "="])
def test_an_option_of_the_schedulers_is_taken_as_the_docs_write_it(between: str) -> None:
    words = shlex.split(f"--option{between}'--constraint=a100' --option{between}--exclusive")
    asked = command_parser().parse_args(["export", "a.ipynb", "--slurm", *words])
    assert asked.option == ["--constraint=a100", "--exclusive"]
    assert ddl_parser().parse_args(["submit", "-N", "2", *words]).option == ["--constraint=a100", "--exclusive"]


def test_options_of_a_run_and_of_jupyterlab() -> None:
    tuned = command_parser().parse_args(["tune", "-n", "2", "--run-options", "--auto", "a.py", "--run-options", "-x"])
    assert (tuned.run_options, tuned.script) == ("--auto", ["a.py", "--run-options", "-x"])
    assert command_parser().parse_args(["bench", "scaling", "--run-options", "--auto"]).run_options == "--auto"
    assert command_parser().parse_args(["workshop", "--lab-options", "--no-browser"]).lab_options == "--no-browser"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tune --run-options \\' SCRIPT", 'Quotes must be closed. Received: --run-options "\'". Close it'),
        ("tune --rounds 0 SCRIPT", "--rounds must be at least 1. Received: 0. Pass more."),
        ("tune --steps -1 SCRIPT", "--steps must be at least 1. Received: -1. Pass more."),
        ("tune --warm-up -1 SCRIPT", "--warm-up must be at least 0. Received: -1. Pass more."),
        ("bench scaling --no-plots --run-options \\'", 'Quotes must be closed. Received: --run-options "\'". Close it'),
        ("bench scaling --no-plots --batch-size -2", "--batch-size must be at least 1. Received: -2. Pass more."),
        ("bench scaling --no-plots --loss nan", "--loss is a number that training can reach. Received: nan. Leave it"),
        ("workshop --lab-options \\'", 'Quotes must be closed. Received: --lab-options "\'". Close it'),
    ],
)
def test_what_such_a_command_cannot_do_is_said_before_it_runs(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.touch()
    assert main(shlex.split(line.replace("SCRIPT", str(script)))) == 1
    assert capsys.readouterr().err.startswith(f"jupyter ddl: {said}")
