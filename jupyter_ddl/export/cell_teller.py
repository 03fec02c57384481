"""Prints what a cell of a notebook shows, while it runs: into a job's log, or a terminal."""

from __future__ import annotations

import asyncio
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Long enough for the same line of other ranks to come, and for a short cell to end.
_EVERY_S = 2.0


class CellTeller:
    """Prints the text of one cell after the other; what was printed once is not printed again.

    A line that changes in its place is not printed again either, and one that comes above others is printed below them:
    a rank's lines go where they belong by time, also those of a rank that is late.

    Args:
        indent: before each line.
    """

    def __init__(self, indent: str = "") -> None:
        self._indent = indent
        self._printed: list[str] = []
        self._cell: Any = None
        self._has_changed = False
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, cell: Any) -> None:
        """Note that a cell shows more; it is printed soon. To be called within an event loop."""
        self._begin(cell)
        self._has_changed = True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._tick)

    def end(self, cell: Any) -> None:
        """Print the rest of a cell that has ended."""
        self._begin(cell)
        self._stop()
        self._tell(text_of(cell).splitlines())

    def _begin(self, cell: Any) -> None:
        if cell is not self._cell:
            self._stop()
            self._cell, self._printed = cell, []

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        """Print the lines of the cell; the newest one, which may still become another, once nothing has changed."""
        self._timer = None
        lines = text_of(self._cell).splitlines()
        self._tell(lines[:-1] if self._has_changed else lines)
        self._has_changed = False
        if len(self._printed) < len(lines):
            self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._tick)

    def _tell(self, lines: list[str]) -> None:
        for line in added(self._printed, lines):
            print(f"{self._indent}{line}", flush=True)
        self._printed = lines


def added(before: list[str], lines: list[str]) -> Iterator[str]:
    """Yield the lines of a text that it had no place for before.

    Example:
        >>> list(added(["[0] a", "[1] c"], ["[0-1] a", "[1] b", "[1] c", "[1] d"]))
        ['[1] b', '[1] d']
    """
    # Of most texts only the end is new, and comparing all of a long one takes seconds.
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, lines, strict=False)))
    matcher = SequenceMatcher(None, before[same:], lines[same:], autojunk=False)
    for _, begin, end, first, last in matcher.get_opcodes():
        yield from lines[same + first + end - begin : same + last]


def text_of(cell: Any) -> str:
    """Return the text of a cell's outputs."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts if text)
