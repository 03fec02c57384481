"""Each command's help has examples, which its parser takes; a shell completes `jupyter ddl`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import paths
from jupyter_ddl.cli import SUBCOMMANDS, command_parser
from jupyter_ddl.commands.examples import TITLE
from jupyter_ddl.kernel.magics.ddl_examples import EXAMPLES, OF_CELLS
from jupyter_ddl.kernel.magics.ddl_parser import ddl_parser
from jupyter_ddl.kernel.magics.distributed import distributed_parser
from jupyter_ddl.kernel.magics.magic_line import MagicParser, parsed
from jupyter_ddl.launch.profiles.places import FOLDER

if TYPE_CHECKING:
    from jupyter_ddl.cli import Subcommand

MAGICS = [(line, ddl_parser) for examples in EXAMPLES.values() for line, _ in examples]
MAGICS += [(line, distributed_parser) for line, _ in OF_CELLS]
RUN = "2026-11-27T09-00-00-default-a3f1"


@pytest.mark.parametrize("subcommand", SUBCOMMANDS, ids=lambda subcommand: subcommand.NAME)
def test_the_examples_of_a_subcommand_are_in_its_help_and_are_taken(
    subcommand: Subcommand, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        command_parser().parse_args([subcommand.NAME, "--help"])
    told = capsys.readouterr().out.partition(TITLE)[2]
    assert subcommand.EXAMPLES
    for line, meaning in subcommand.EXAMPLES:
        assert f"  jupyter ddl {line}\n      {meaning}\n" in told
        assert command_parser().parse_args(shlex.split(line)).main == subcommand.main


def test_a_subcommand_of_a_subcommand_has_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        command_parser().parse_args(["bench", "scaling", "--help"])
    assert "jupyter ddl bench scaling --model cnn" in capsys.readouterr().out.partition(TITLE)[2]


def test_every_command_of_the_magic_has_examples() -> None:
    (commands,) = [action.choices for action in ddl_parser()._actions if isinstance(action.choices, dict)]
    assert list(commands) == list(EXAMPLES)


@pytest.mark.parametrize(("line", "parser"), MAGICS, ids=[line for line, _ in MAGICS])
def test_the_examples_of_a_magic_are_in_its_help_and_are_taken(
    line: str, parser: type[MagicParser], capsys: pytest.CaptureFixture[str]
) -> None:
    words = line.split(maxsplit=1)[1:]
    command = words[0].split()[:1] if words and parser is ddl_parser else []
    assert parsed(parser(), " ".join([*command, "-h"])) is None
    assert f"  {line}\n      " in capsys.readouterr().out.partition(TITLE)[2]
    assert parsed(parser(), " ".join(words)) is not None


def completed(line: str, tmp_path: Path) -> list[str]:
    """Return what bash offers at the end of a line, by argcomplete's own code for it."""
    asks = """
eval "$(register-python-argcomplete jupyter)"
COMP_LINE=$1; COMP_POINT=${#1}; COMP_TYPE=9; COMP_KEY=9
COMP_WORDS=($1); [[ $1 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete jupyter
printf '%s\n' "${COMPREPLY[@]}"
"""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        paths.RUNS_VARIABLE: str(tmp_path / "runs"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
    }
    done = subprocess.run(
        ["bash", "-c", asks, "bash", line], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout.split()


def test_a_shell_completes_subcommands_options_files_runs_and_profiles(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    assert completed("jupyter ddl ru", tmp_path) == ["run", "runs"]
    assert completed("jupyter ddl run --ov", tmp_path) == ["--oversubscribe"]
    assert completed("jupyter ddl run --on-stall ", tmp_path) == ["report", "abort"]
    assert completed("jupyter ddl run -n 2 tr", tmp_path) == ["train.py"]
    assert completed("jupyter ddl show 2026", tmp_path) == [RUN]
    assert completed("jupyter ddl runs --rename ", tmp_path) == [RUN]
    profile = tmp_path / "config" / FOLDER / "site.toml"
    assert completed("jupyter ddl run --profile ", tmp_path) == []
    profile.parent.mkdir(parents=True)
    profile.write_text('[night]\nlauncher = "slurm"\n')
    assert completed("jupyter ddl run --profile ", tmp_path) == ["night"]
