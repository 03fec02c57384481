"""Prints what a cell of a notebook shows, while it runs: into a job's log, or a terminal."""

from __future__ import annotations

import time
from typing import Any

# A rank's line may still become the line of all ranks, and a short cell is shown when it has ended.
_FIRST_S = 2.0
_EVERY_S = 0.5


class CellTeller:
    """Prints the text of one cell after the other; what was printed once is not printed again.

    Args:
        indent: before each line.
    """

    def __init__(self, indent: str = "") -> None:
        self._indent = indent
        self._told = 0
        self._next_s = 0.0
        self._cell: Any = None

    def follow(self, cell: Any) -> None:
        """Print the lines of a cell that runs, but for the newest."""
        self._begin(cell)
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _EVERY_S
            self._tell(text_of(cell).splitlines()[:-1])

    def end(self, cell: Any) -> None:
        """Print the rest of a cell that has ended."""
        self._begin(cell)
        self._tell(text_of(cell).splitlines())

    def _begin(self, cell: Any) -> None:
        if cell is not self._cell:
            self._cell, self._told, self._next_s = cell, 0, time.monotonic() + _FIRST_S

    def _tell(self, lines: list[str]) -> None:
        for line in lines[self._told :]:
            print(f"{self._indent}{line}", flush=True)
        self._told = max(self._told, len(lines))


def text_of(cell: Any) -> str:
    """Return the text of a cell's outputs."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts if text)
