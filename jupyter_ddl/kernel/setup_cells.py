"""Remembers setup cells, and runs them on new ranks before any other cell.

Runs on: kernel.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import ClusterLost, DdlError, SetupFailed
from jupyter_ddl.protocol.number_texts import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class SetupCell:
    """A cell that new ranks run before any other.

    Attributes:
        code: its source; the same text is remembered once.
        run: runs it on the ranks there are, to its end.
    """

    code: str
    run: Callable[[], Any]


class SetupCells:
    """The setup cells of one session, in the order in which they were first run."""

    def __init__(self) -> None:
        self._cells: dict[str, SetupCell] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._cells)

    def remember(self, cell: SetupCell) -> None:
        """Have new ranks run a cell, after those remembered before."""
        self._cells.setdefault(cell.code, cell)

    def replay(self, step: Callable[[str], None]) -> str:
        """Run the setup cells on new ranks; return a sentence on that, empty where there are none.

        Args:
            step: called with a sentence before each cell.

        Raises:
            SetupFailed: one raised; those after it were not run.
            ClusterLost: one ended the ranks.
        """
        began_s = time.monotonic()
        cells = list(self._cells.values())
        for number, cell in enumerate(cells, 1):
            step(f"running setup cell {number} of {len(cells)} again")
            try:
                cell.run()
            except ClusterLost as error:
                raise ClusterLost(
                    f"A setup cell must leave the ranks alive. Received: setup cell {number} of {len(cells)}, "
                    f"which began {_first_line(cell.code)!r}: {error}\n"
                    f"To start without setup cells, use %ddl stop and then %ddl start."
                ) from error
            except DdlError as error:
                raise SetupFailed(
                    f"A setup cell must run on new ranks. Received: setup cell {number} of {len(cells)}, which "
                    f"begins {_first_line(cell.code)!r}: {error}\nThe ranks run, with no variable that it or a later "
                    f"one sets: run what is needed, and this cell again."
                ) from error
        if not cells:
            return ""
        return f" {counted(len(cells), 'setup cell')} ran again ({duration(time.monotonic() - began_s)})."


def _first_line(code: str) -> str:
    return next((line.strip() for line in code.splitlines() if line.strip()), "")[:80]
