"""Sends this rank's events, from any thread, on ipyparallel's own signed iopub channel.

Runs on: every rank.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.codec import as_json

if TYPE_CHECKING:
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
        self._lock = threading.Lock()

    def __call__(self, event: Wire) -> None:
        """Send one event. Events that one thread sends arrive in the order in which it sent them."""
        # Packed here: the session's own packer does not take NaN, and warns in the cell's stderr. It passes bytes
        # through. Source: jupyter_client 8.10, session.py, json_packer and Session.serialize
        content = as_json(event)
        # Session counts and signs messages without a lock of its own.
        with self._lock:
            message = self._session.msg("ddl_event", content=content)
            self._iopub.send_multipart(self._session.serialize(message, ident=TOPIC))
