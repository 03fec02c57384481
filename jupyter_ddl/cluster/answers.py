"""Asks ranks, and waits for their answers for a limited time.

Runs on: kernel, and the terminal of a script.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.rank_answers import LookedUp, RankDebugged, RankProfile, RankStacks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.requests import DebugRank, LookAtStacks, LookUp, ProfileRank
    from jupyter_ddl.protocol.transport import RankTransport


class Answers:
    """What ranks answer to requests that have an id. Safe to use from any thread.

    Args:
        transport: asks the ranks; `handle` gets their events.
    """

    def __init__(self, transport: RankTransport) -> None:
        self._transport = transport
        self._changed = threading.Condition()
        self._answers: dict[str, dict[int, Any]] = {}

    def ask(
        self,
        request: LookAtStacks | LookUp | ProfileRank | DebugRank,
        ranks: Sequence[int],
        timeout_s: float,
        is_last: Callable[[Any], bool] = lambda _: False,
    ) -> dict[int, Any]:
        """Return what the ranks have answered by the time that all have, or that the time is over.

        Args:
            request: what is asked.
            ranks: who.
            timeout_s: how long to wait.
            is_last: whether an answer makes the others' superfluous.
        """
        answers = self._answers[request.look] = {}
        try:
            self._transport.send(request, ranks, now=True)
            with self._changed:
                self._changed.wait_for(
                    lambda: len(answers) == len(ranks) or any(map(is_last, answers.values())), timeout_s
                )
                return dict(answers)
        finally:
            del self._answers[request.look]

    def handle(self, event: Event) -> None:
        """Take an event of the ranks."""
        if not isinstance(event, LookedUp | RankStacks | RankProfile | RankDebugged):
            return
        answers = self._answers.get(event.look)
        if answers is not None:
            with self._changed:
                answers[event.rank] = event
                self._changed.notify_all()
