"""Parses the line of a magic as a command line, with errors in place of exits.

Runs on: kernel.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NoReturn

from jupyter_ddl.commands.parsers import StrictParser
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.rank_sets import parse
from jupyter_ddl.views.progress import Progress

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_ddl.kernel.session import Session


class MagicParser(StrictParser):
    """A parser that raises, and never ends the kernel."""

    def error(self, message: str) -> NoReturn:
        """Raise InvalidInput, with the usage."""
        raise InvalidInput(f"{self.prog} takes what its usage says.", message, " ".join(self.format_usage().split()))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002  argparse's signature
        """End the parsing."""
        # Only -h comes here: argparse has printed the help.
        raise _HelpShown


class _HelpShown(Exception):
    pass


def parsed(parser: MagicParser, line: str) -> Namespace | None:
    """Return a magic's arguments; None where the line asks for help, which has been printed.

    Raises:
        InvalidInput: the line is not as the usage says.
    """
    try:
        return parser.parse_args(_split(line))
    except _HelpShown:
        return None
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            "Quotes must be closed.", line, "Write 'a b' or \"a b\" for a value with a space."
        ) from error


def _split(line: str) -> list[str]:
    """Split a line as a shell does, but for backslashes in `logs`: there they belong to a regular expression."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if line.split(maxsplit=1)[:1] == ["logs"]:
        lexer.escape = ""
    return list(lexer)


def ranks_of(text: str | None, session: Session) -> tuple[int, ...] | None:
    """Return the ranks that `-r` names; None, for all, where it is not given."""
    return None if text is None else parse(text, session.world_size)


def show_rebuild(session: Session) -> None:
    """Show how lost ranks are being replaced, until they are, and the report of that."""
    progress = Progress()
    told = session.wait_rebuilt(progress)
    if told is not None:
        progress.conclude(told)
