"""Gives the help of commands its examples: lines to copy, each with what it does.

Runs on: kernel and terminal.
"""

from __future__ import annotations

from argparse import HelpFormatter
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable

Examples: TypeAlias = "tuple[tuple[str, str], ...]"
"""Lines, each with what it does."""
TITLE = "examples:"


class _Formatter(HelpFormatter):
    """Argparse's, which leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if TITLE in text else super()._fill_text(text, width, indent)


def add_examples(parser: ArgumentParser, examples: Iterable[tuple[str, str]]) -> None:
    """Write examples below a command's help.

    Example:
        >>> add_examples(parser, [("jupyter ddl runs -n 5", "the five newest")])
    """
    lines = [part for line, meaning in examples for part in (f"  {line}", f"      {meaning}")]
    parser.epilog = "\n".join([*([parser.epilog, ""] if parser.epilog else []), TITLE, *lines])
    parser.formatter_class = _Formatter
