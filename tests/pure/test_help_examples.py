"""Each command's help has examples, which its parser takes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cli import SUBCOMMANDS, command_parser
from jupyter_ddl.commands.examples import TITLE
from jupyter_ddl.kernel.magics.ddl_examples import EXAMPLES, OF_CELLS
from jupyter_ddl.kernel.magics.ddl_parser import ddl_parser
from jupyter_ddl.kernel.magics.distributed import distributed_parser
from jupyter_ddl.kernel.magics.magic_line import MagicParser, parsed

if TYPE_CHECKING:
    from jupyter_ddl.cli import Subcommand

MAGICS = [(line, ddl_parser) for examples in EXAMPLES.values() for line, _ in examples]
MAGICS += [(line, distributed_parser) for line, _ in OF_CELLS]


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
