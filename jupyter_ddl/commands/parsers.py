"""Finds the parsers of a command and of its subcommands.

Runs on: kernel and terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator


def with_subparsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
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
