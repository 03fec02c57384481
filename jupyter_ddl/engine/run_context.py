"""Holds the current run's options, as code on this rank sees them.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.cell_options import PLAIN_OPTIONS, CellOptions

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Cell:
    """A cell, or a script under `jupyter ddl run`.

    Attributes:
        ranks: the number of ranks that run it.
        options: as its magic, its command line or `Session.run` had them.
    """

    ranks: int
    options: CellOptions = PLAIN_OPTIONS


_current: Cell | None = None
_failed = False
_preparations: list[Callable[[Cell], None]] = []


def begin(cell: Cell) -> None:
    """Note what runs now."""
    global _current
    _current = cell


def end(*, failed: bool) -> None:
    """Note how what ran has ended on this rank."""
    global _failed
    _failed = failed


def last_failed() -> bool:
    """Return whether what ran last on this rank was ended by an exception, an interrupt or a timeout."""
    return _failed


def prepare_with(preparation: Callable[[Cell], None]) -> None:
    """Register a function that `prepare` calls: the training layer's, which this layer does not import."""
    _preparations.append(preparation)


def prepare() -> None:
    """Call the registered functions before the run's own code. The cell raises what they raise.

    Collective: every rank must call this.
    """
    assert _current is not None
    for preparation in _preparations:
        preparation(_current)


def current() -> Cell | None:
    """Return what runs, or ran last; None in a process that is no rank of ours."""
    return _current


def options() -> CellOptions:
    """Return the options of what runs, or ran last; those of plain Python in a process that is no rank of ours."""
    return PLAIN_OPTIONS if _current is None else _current.options


def is_sampled() -> bool:
    """Return whether the training's progress is sampled."""
    return options().sample_every_s is not None
