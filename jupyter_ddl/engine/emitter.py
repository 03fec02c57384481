"""Sends this rank's events, from any thread, on ipyparallel's own signed iopub channel.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.codec import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.protocol.codec import Wire

# The first frame of each message, so that the session's SUB socket takes our events and nothing else.
TOPIC = b"ddl"


class Emitter:
    """Sends events; safe to call from any thread, and never waits for a reader.

    Args:
        session: the engine's jupyter_client Session, whose key signs the messages.
        iopub: ipykernel's IOPubThread, which owns the socket.
    """

    def __init__(self, session: Any, iopub: Any) -> None:
        self._session = session
        self._iopub = iopub
        self._lock = Lock()
        # Messages that are to be sent together; None where each is sent at once.
        self._held: list[Any] | None = None

    def __call__(self, event: Wire) -> None:
        """Send one event. Events that one thread sends arrive in the order in which it sent them."""
        # Packed here: the session's own packer does not take NaN, and warns in the cell's stderr. It passes bytes
        # through. Source: jupyter_client 8.10, session.py, json_packer and Session.serialize
        content = as_json(event)
        # Session counts and signs messages without a lock of its own.
        with self._lock:
            message = self._session.msg("ddl_event", content=content)
            parts = self._session.serialize(message, ident=TOPIC)
            if self._held is None:
                self._iopub.send_multipart(parts)
            else:
                self._held.append(parts)

    @contextmanager
    def together(self) -> Iterator[Event]:
        """Send what is sent in the block at its end, so that the socket's thread wakes once and not for each event.

        It takes Python's lock from this thread each time: 0.1 ms, of the two that a short cell takes.

        Yields:
            What is set when all of it has left.
        """
        have_left = Event()
        with self._lock:
            self._held = []
        try:
            yield have_left
        finally:
            with self._lock:
                held, self._held = self._held, None
                self._iopub.schedule(lambda: self._send(held, have_left))

    def _send(self, messages: Sequence[Any], have_left: Event) -> None:
        """Send messages. Runs in the socket's thread, which stops at what raises."""
        for parts in messages:
            # As its `send_multipart`, which would schedule each. Source: ipykernel 7.4, iostream.py, IOPubThread
            self._iopub._really_send(parts)
        have_left.set()
