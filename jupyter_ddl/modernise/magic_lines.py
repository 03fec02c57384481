"""IPython's own lines in a notebook's cell (`%matplotlib inline`, `!pip install x`, `model?`), which are no Python.

They are hidden behind names while the program is rewritten, and come back as they were.
"""

from __future__ import annotations

import re
from typing import Any

from IPython.core.inputtransformer2 import (
    EscapedCommand,
    HelpEnd,
    MagicAssign,
    SystemAssign,
    find_end_of_continued_line,
    make_tokens_by_line,
)

# Cells of another language, and files, begin with a magic that is not here.
_PYTHON_CELLS = {"distributed", "px", "time", "timeit", "capture", "prun"}
_HELP: Any = HelpEnd
_NAME = "__jupyter_ddl_magic_{}__"
_NAMES = re.compile(r"__jupyter_ddl_magic_(\d+)__")


class MagicLines:
    """The hidden lines of one notebook."""

    def __init__(self) -> None:
        self._hidden: list[str] = []

    def hide(self, cell: str) -> str | None:
        """Return a cell as Python; None where it is another language."""
        lines = cell.splitlines(keepends=True)
        first = next((place for place, line in enumerate(lines) if line.strip()), None)
        if first is not None and lines[first].startswith("%%"):
            name = re.match(r"%%(\w*)", lines[first])
            if name is None or name[1] not in _PYTHON_CELLS:
                return None
            self._hide(lines, (first, 0), first)
        while span := _first_magic(lines):
            self._hide(lines, *span)
        return "".join(lines)

    def show(self, code: str) -> str:
        """Return rewritten code with its hidden lines."""
        return _NAMES.sub(lambda match: self._hidden[int(match[1])], code)

    def _hide(self, lines: list[str], start: tuple[int, int], end_line: int) -> None:
        """Replace by a name the text from a line and column to the end of a line."""
        line, column = start
        text = "".join(lines[line : end_line + 1])
        hidden = text[column:].rstrip("\n")
        name = _NAME.format(len(self._hidden))
        self._hidden.append(hidden)
        lines[line : end_line + 1] = [text[:column] + name + text[column + len(hidden) :]]


def _first_magic(lines: list[str]) -> tuple[tuple[int, int], int] | None:
    """Return where IPython's own syntax begins, and the line where it ends; None where there is none."""
    tokens = make_tokens_by_line(lines)
    kinds: tuple[Any, ...] = (EscapedCommand, MagicAssign, SystemAssign)
    for kind in kinds:
        if found := kind.find(tokens):
            start = (found.start_line, found.start_col)
            return start, find_end_of_continued_line(lines, found.start_line)
    if found := _HELP.find(tokens):
        return (found.start_line, found.start_col), max(found.start_line, found.q_line)
    return None
