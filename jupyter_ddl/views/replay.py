"""Shows the events of a finished run at once, as they showed while it ran."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.events import OutputChunk
from jupyter_ddl.views.selection import current_publisher, for_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.publish import Publisher
    from jupyter_ddl.views.view import View

_TICK_S = 0.1
# Longer than output ever waits: gaps of minutes need not be stepped through in tenths of seconds.
_TICKS = 5


def replay(events: Iterable[Event], ranks: Sequence[int], logs: str | None, *, only_first_rank: bool = False) -> None:
    """Show a run's events where this process shows its output.

    Args:
        events: in the order in which they arrived.
        ranks: the ranks that ran the cell.
        logs: where the whole output can be read, for the line that counts what is not shown.
        only_first_rank: the cell was written for one process: other ranks' output stays in their logs.
    """
    publisher = current_publisher()
    outputs = Outputs()
    shown_in = outputs if publisher is not None else None
    _feed(for_environment(shown_in, ranks, logs, only_first_rank=only_first_rank), events)
    if publisher is not None:
        outputs.publish_all(publisher)


class Outputs:
    """A `Publisher` that keeps a cell's final outputs, so that the front end does not get every step.

    Its outputs get names of their own: the cell that ran, and what it displayed, stay as they are.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def publish(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Keep a new output, after all earlier ones."""
        self._outputs[display_id] = data, metadata

    def update(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Replace an output; one of an earlier cell is not there to be replaced."""
        if display_id in self._outputs:
            self._outputs[display_id] = data, metadata

    def publish_all(self, publisher: Publisher) -> None:
        """Show the outputs."""
        name = uuid.uuid4().hex
        for count, (data, metadata) in enumerate(self._outputs.values()):
            if data != {"text/plain": ""}:
                publisher.publish(data, metadata, f"ddl-{name}-{count}")


def _feed(view: View, events: Iterable[Event]) -> None:
    """Pass events to a view with the time between them, which decides what folds."""
    now_s = 0.0
    for event in events:
        if isinstance(event, OutputChunk) and event.at_s > now_s:
            # A view shows what has waited long enough at the next tick, a tenth of a second later at most.
            for tick in range(1, _TICKS):
                view.tick(min(now_s + tick * _TICK_S, event.at_s))
            now_s = event.at_s
        view.handle(event)
    view.flush()
