"""What the program on this rank may know of the cell, or script, that it is.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A cell, or a script under `jupyter ddl run`.

    Attributes:
        ranks: the number of ranks that run it.
        independent: each of them means to train a model of its own.
    """

    ranks: int
    independent: bool = False


_current: Cell | None = None


def begin(cell: Cell) -> None:
    """Note what runs now."""
    global _current
    _current = cell


def current() -> Cell | None:
    """Return what runs, or ran last; None in a process that is no rank of ours."""
    return _current
