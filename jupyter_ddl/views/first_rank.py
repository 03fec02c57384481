"""Shows a program that was written for one process: its output once, as its first rank printed it.

The others' output is in their logs. Warnings and errors (stderr) show from every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.protocol.events import OutputChunk, OutputCleared, RichOutput

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.view import View


class FirstRank:
    """A `View` that leaves out what ranks other than 0 print and display.

    Attributes:
        view: shows the rest.
    """

    def __init__(self, view: View) -> None:
        self.view = view

    def handle(self, event: Event) -> None:
        """Take an event of the run."""
        if not _is_anothers(event):
            self.view.handle(event)

    def tick(self, now_s: float) -> None:
        """Show what has happened since."""
        self.view.tick(now_s)

    def flush(self) -> None:
        """Show all there is and end unfinished lines."""
        self.view.flush()


def _is_anothers(event: Event) -> bool:
    if isinstance(event, OutputChunk):
        return event.rank > 0 and event.stream == "stdout"
    return isinstance(event, RichOutput | OutputCleared) and event.rank > 0
