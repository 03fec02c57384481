"""What the program on this rank may know of the cell, or script, that it is.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.fit_options import STOP

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.protocol.auto_options import AutoOptions


@dataclass(frozen=True)
class Cell:
    """A cell, or a script under `jupyter ddl run`.

    Attributes:
        ranks: the number of ranks that run it.
        independent: each of them means to train a model of its own.
        auto: how what was written for one process is distributed over them; None where that is not wanted.
        is_sampled: somebody reads how its training goes.
        checkpoint: the folder that `fit` saves to and goes on from; None for none.
        on_drift: what `fit` does where the ranks' weights have come apart: "stop" or "warn".
    """

    ranks: int
    independent: bool = False
    auto: AutoOptions | None = None
    is_sampled: bool = False
    checkpoint: str | None = None
    on_drift: str = STOP


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
    """Have `prepare` call a function: the training layer's, which this one does not know."""
    _preparations.append(preparation)


def prepare() -> None:
    """Do what must be done before the code of what has begun runs. What it raises, the cell does.

    Collective: every rank must call this.
    """
    assert _current is not None
    for preparation in _preparations:
        preparation(_current)


def current() -> Cell | None:
    """Return what runs, or ran last; None in a process that is no rank of ours."""
    return _current


def is_sampled() -> bool:
    """Return whether somebody reads how the training goes."""
    return _current is not None and _current.is_sampled


def on_drift() -> str:
    """Return what `fit` does where the ranks' weights have come apart."""
    return STOP if _current is None else _current.on_drift
