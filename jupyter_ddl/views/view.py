"""Declares the interface of every view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.protocol.events import Event

    SingleRank = Callable[[str], float | None]
    """From a model's name, as in `MetricsSample.model`, to one rank's samples/s with it."""


class View(Protocol):
    """Shows one run. One thread at a time may call it; no method blocks."""

    def handle(self, event: Event) -> None:
        """Take an event of the run."""

    def tick(self, now_s: float) -> None:
        """Show what has happened since; call it about ten times a second, with a monotonic clock."""

    def flush(self) -> None:
        """Show all there is and end unfinished lines; call it once, when the run is over."""
