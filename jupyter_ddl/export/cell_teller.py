"""Prints what a cell of a notebook shows, while it runs: into a job's log, or a terminal."""

from __future__ import annotations

import asyncio
from typing import Any

# Long enough for the same line of other ranks to come, and for a short cell to end.
_EVERY_S = 2.0


class CellTeller:
    """Prints the text of one cell after the other; what was printed once is not printed again.

    Args:
        indent: before each line.
    """

    def __init__(self, indent: str = "") -> None:
        self._indent = indent
        self._told = 0
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
            self._cell, self._told = cell, 0

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
        if self._told < len(lines):
            self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._tick)

    def _tell(self, lines: list[str]) -> None:
        for line in lines[self._told :]:
            print(f"{self._indent}{line}", flush=True)
        self._told = max(self._told, len(lines))


def text_of(cell: Any) -> str:
    """Return the text of a cell's outputs."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts if text)
