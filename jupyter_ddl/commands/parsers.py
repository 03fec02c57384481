"""What parsers of commands and of magics have in common: their subcommands, and how they read their words.

Runs on: kernel and terminal.
"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Their values are options themselves: `--option '--constraint=a100'`. Argparse takes a word with a hyphen for an option
# of its own, unless it has a space.
_OF_OPTIONS = ("--option", "--run-options", "--lab-options")


class StrictParser(argparse.ArgumentParser):
    """A parser that takes options as values, and refuses what it does not take with its own usage."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; what is left over is an error here, for which argparse would show the usage of the whole command."""
        parsed, left = super().parse_known_args(None if args is None else self._joined(args), namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return parsed, left

    def _joined(self, words: Sequence[str]) -> list[str]:
        """Join an option whose values are options with its value, by `=`."""
        names = {name for action in self._actions for name in action.option_strings if name in _OF_OPTIONS}
        joined: list[str] = []
        rest = iter(words)
        for word in rest:
            value = next(rest, None) if word in names else None
            joined.append(word if value is None else f"{word}={value}")
            if word.endswith(".py"):
                # A script: what follows is its own.
                break
        return [*joined, *rest]


def with_subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and, after it, those of its subcommands.

    Example:
        >>> [one.prog for one in with_subparsers(command_parser())][:2]
        ['jupyter ddl', 'jupyter ddl build-horovod']
    """
    yield parser
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for below in action.choices.values():
                yield from with_subparsers(below)


def options_in(option: str, text: str) -> list[str]:
    """Return the words of an option whose value is a line of options.

    Raises:
        InvalidInput: a quote in it is not closed.

    Example:
        >>> options_in("--run-options", "--auto -H a:2,b:2")
        ['--auto', '-H', 'a:2,b:2']
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidInput("Quotes must be closed.", f"{option} {text!r}", "Close it, or leave it out.") from error
