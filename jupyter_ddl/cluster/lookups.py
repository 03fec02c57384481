"""Asks rank 0 for completions and documentation of code that is being written, and waits a second at most.

Runs on: kernel.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.events import LookedUp
from jupyter_ddl.protocol.requests import LookUp

if TYPE_CHECKING:
    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.protocol.events import Event

# A user who types waits no longer; a rank in C code that holds Python's lock does not answer at all.
ANSWER_S = 1.0


class Lookups:
    """Looks names up on rank 0 of one cluster. Safe to use from any thread.

    Args:
        cluster: the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed = threading.Condition()
        self._answers: dict[str, dict[str, Any] | None] = {}
        cluster.listen(self._on_event)

    def look_up(self, what: str, code: str, cursor: int, detail: int = 0) -> dict[str, Any]:
        """Return what the rank's IPython answers; an empty answer where it does not come in time.

        Args:
            what: "complete" or "inspect".
            code: what is being written.
            cursor: the position in it, in characters.
            detail: of "inspect": 1 for the source too.
        """
        look = secrets.token_hex(4)
        with self._changed:
            self._answers[look] = None
            self._cluster.send(LookUp(look, what, code, cursor, detail), [0], now=True)
            self._changed.wait_for(lambda: self._answers[look] is not None, ANSWER_S)
            found = self._answers.pop(look)
        return found or (
            {"matches": [], "start": cursor, "end": cursor} if what == "complete" else {"data": {}, "found": False}
        )

    def _on_event(self, event: Event) -> None:
        if isinstance(event, LookedUp):
            with self._changed:
                if event.look in self._answers:
                    self._answers[event.look] = event.content
                    self._changed.notify_all()
