"""Holds what runs on this rank, and what ran last: the cell, or the script.

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


class Cells:
    """The cells of one rank, one after the other.

    Attributes:
        current: what runs, or ran last; None in a process that runs no cell or script of ours.
        last_failed: whether what ran last was ended by an exception, an interrupt or a timeout.
    """

    def __init__(self) -> None:
        self.current: Cell | None = None
        self.last_failed = False
        self._preparations: list[Callable[[Cell], None]] = []
        self._conclusions: list[Callable[[], None]] = []

    def begin(self, cell: Cell) -> None:
        """Note what runs now."""
        self.current = cell

    def end(self, *, failed: bool) -> None:
        """Note how what ran has ended on this rank."""
        self.last_failed = failed

    def prepare_with(self, preparation: Callable[[Cell], None]) -> None:
        """Register, once, a function that `prepare` calls: the training layer's, which this layer does not import."""
        if preparation not in self._preparations:
            self._preparations.append(preparation)

    def prepare(self) -> None:
        """Call the registered functions before the run's own code. The cell raises what they raise.

        Collective: every rank must call this.
        """
        assert self.current is not None
        # A preparation may import Keras, which registers others: these are called too.
        for preparation in self._preparations:
            preparation(self.current)

    def conclude_with(self, conclusion: Callable[[], None]) -> None:
        """Register, once, a function that `conclude` calls."""
        if conclusion not in self._conclusions:
            self._conclusions.append(conclusion)

    def conclude(self) -> None:
        """Call the registered functions after the run's own code, which has ended well. The cell raises what they do.

        No collective: other ranks may still run, or have raised.
        """
        for conclusion in self._conclusions:
            conclusion()
