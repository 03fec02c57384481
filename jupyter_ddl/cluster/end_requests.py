"""Hears kernels on other hosts ask a lease to end its ranks: over the controller, signed as all messages are.

Runs on: the lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import zmq

from jupyter_ddl.cluster.channel import connected, signed_content, signer
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.host.threads import ErrorsOnce, Supervised
from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.requests import EndAsked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Kernels subscribe to "ddl": they do not get these.
LEASE_TOPIC = b"lease"


class EndRequests:
    """Hears requests to end a cluster, in a thread.

    Args:
        connection_file: ipyparallel's connection file for clients.
        asked: called with each request, in that thread.
    """

    def __init__(self, connection_file: Path, asked: Callable[[], None]) -> None:
        self._file = connection_file
        self._asked = asked
        self._errors = ErrorsOnce()
        self._thread: Supervised | None = None

    def begin(self) -> None:
        """Begin to hear, once the controller listens. To be called repeatedly until then; does nothing later."""
        if self._thread is None and self._file.exists():
            self._thread = Supervised(self._hear, "jupyter_ddl end requests", lambda _: None)
            self._thread.start()

    def _hear(self) -> None:
        info = untrusted_files.read_object(self._file, only_own=True)
        checks = signer(info)
        with zmq.Context() as context, connected(context, zmq.SUB, info, "iopub") as socket:
            socket.subscribe(LEASE_TOPIC)
            while True:
                parts = socket.recv_multipart()
                try:
                    _, frames = checks.feed_identities(parts)
                    content = signed_content(checks, cast("list[bytes]", frames))
                    if content is not None:
                        decode(content, EndAsked)
                        self._asked()
                except (ValueError, TypeError) as error:
                    # Noise, or a request of another version.
                    self._errors.tell(error)
