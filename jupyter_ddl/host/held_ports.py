"""Holds ports that are chosen before anything listens there."""

from __future__ import annotations

import socket
from contextlib import ExitStack


class HeldPorts(ExitStack):
    """Ports that no other process is given, though nothing listens there yet. A context manager, which releases them.

    Linux lets a second socket listen at an address where one is bound, if both have SO_REUSEADDR, which ZeroMQ, gRPC,
    Tornado and Node.js set. It gives such a port to no one who asks for any free one. Source: `man 7 socket`.

    Example:
        >>> with HeldPorts() as ports:
        ...     start_server(ports.add())
    """

    def add(self) -> int:
        """Hold one more port, of all addresses of this host, and return it."""
        held = self.enter_context(socket.socket())
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("", 0))
        return int(held.getsockname()[1])
