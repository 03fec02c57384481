"""Combines several views of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.view import View


class Together:
    """A `View` that passes each event to its views, in their order.

    Attributes:
        views: the views.
    """

    def __init__(self, *views: View) -> None:
        self.views = views

    def handle(self, event: Event) -> None:
        """Take an event of the run."""
        for view in self.views:
            view.handle(event)

    def tick(self, now_s: float) -> None:
        """Show what has happened since."""
        for view in self.views:
            view.tick(now_s)

    def flush(self) -> None:
        """Show all there is."""
        for view in self.views:
            view.flush()
