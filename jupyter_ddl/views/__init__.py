"""What the user sees. Runs on: kernel. A view reads events and nothing else.

| module | owns |
|---|---|
| line | one rank's one stream as a terminal would show it |
| fold | what several ranks say alike is one entry |
| transcript | from events to entries; used by both views |
| page, outputs | the layout under a notebook's cell, and its outputs |
| cell, publish | when that is sent, and how |
| terminal | the same entries, printed |
| first_rank | of a program for one process, what its first rank prints |
| table, failure | the ranks of a cluster, and what they raised, as text |
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.events import Event


class View(Protocol):
    """Shows one run. One thread at a time may call it; no method waits for anything."""

    def handle(self, event: Event) -> None:
        """Take an event of the run."""

    def tick(self, now_s: float) -> None:
        """Show what has happened since; call it about ten times a second, with a monotonic clock."""

    def flush(self) -> None:
        """Show all there is and end unfinished lines; call it once, when the run is over."""


def for_environment(ranks: Sequence[int], logs: str | None) -> View:
    """Return the view that fits where this process shows its output: a notebook's cell, or a terminal.

    Call it in the cell that starts the run: its output stays under that cell.

    Args:
        ranks: the ranks that run the cell.
        logs: where the whole output can be read, for the line that counts what is not shown.
    """
    # IPython that nobody has imported shows nothing.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None and hasattr(shell, "kernel"):
        from jupyter_ddl.views.cell import CellView
        from jupyter_ddl.views.publish import JupyterPublisher

        return CellView(ranks, logs, JupyterPublisher(shell))
    from jupyter_ddl.views.terminal import TerminalView

    return TerminalView(ranks)
