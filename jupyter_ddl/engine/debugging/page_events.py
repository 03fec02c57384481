"""Keeps what pydevd reports for the pages that debug this rank, and answers each page's question for what is new.

Runs on: every rank, in the debugger's thread.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.protocol.requests import DebugRank

# A page's question for events is answered after so long, also where there are none.
EVENTS_S = 8.0
_MAX_EVENTS = 1000
_SHOWN = ("stopped", "continued", "initialized")


class PageEvents:
    """The events of one rank's debugger, and the pages' questions that wait for new ones.

    Args:
        reply: answers a request with a body.
    """

    def __init__(self, reply: Callable[[DebugRank, dict[str, Any]], None]) -> None:
        self._reply = reply
        # The newest, and how many there were.
        self._events: deque[dict[str, Any]] = deque(maxlen=_MAX_EVENTS)
        self._count = 0
        self._waiting: list[tuple[DebugRank, float]] = []

    @property
    def are_awaited(self) -> bool:
        """Whether a page waits for events."""
        return bool(self._waiting)

    def add(self, event: dict[str, Any]) -> None:
        """Keep an event of pydevd's, if it is one that pages show."""
        if event["event"] in _SHOWN:
            self._events.append(event)
            self._count += 1

    def ask(self, request: DebugRank) -> None:
        """Take a page's question, which `answer` answers when it is due."""
        self._waiting.append((request, monotonic() + EVENTS_S))

    def answer(self, *, is_attached: bool) -> None:
        """Answer the pages that have waited long enough, or for which there is something new, or no debugger."""
        waiting, self._waiting = self._waiting, []
        for request, until_s in waiting:
            if monotonic() >= until_s or _after(request) < self._count or not is_attached:
                self._tell(request, is_attached=is_attached)
            else:
                self._waiting.append((request, until_s))

    def _tell(self, request: DebugRank, *, is_attached: bool) -> None:
        after = _after(request)
        # A page that has just come gets those that come from here on.
        new = 0 if after < 0 else min(self._count - after, len(self._events))
        events = list(self._events)[len(self._events) - new :]
        self._reply(request, {"events": events, "after": self._count, "isStarted": is_attached})


def _after(request: DebugRank) -> int:
    after = (request.message.get("arguments") or {}).get("after", 0)
    return after if isinstance(after, int) else 0
