"""Finds this process's TCP connections, and ends some of them.

A collective that waits for a peer ends with an error when its connection does, whatever state the peer is in.

Runs on: every rank.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_OPEN = Path("/proc/self/fd")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def connections(*, without_port: int | None = None, to_port: int | None = None) -> set[int]:
    """Return this process's TCP connections, by their inodes, which no later one gets.

    Args:
        without_port: connections from or to this port are left out.
        to_port: only those to this port of a peer.
    """
    found = set()
    for inode, connection in _connections():
        with connection, suppress(OSError):
            own, peer = connection.getsockname()[1], connection.getpeername()[1]
            if without_port not in (own, peer) and to_port in (None, peer):
                found.add(inode)
    return found


def shut_down(inodes: Collection[int]) -> None:
    """End connections in both directions: who waits on one, here or at its other end, gets an error."""
    for inode, connection in _connections():
        with connection, suppress(OSError):
            if inode in inodes:
                connection.shutdown(socket.SHUT_RDWR)


def _connections() -> Iterator[tuple[int, socket.socket]]:
    """Yield each TCP socket's inode, and a socket that shares it, for the caller to close."""
    for name in os.listdir(_OPEN):  # noqa: PTH208  names are all that is needed
        try:
            # Another thread may close one meanwhile.
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            connection = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        if connection.family in _FAMILIES and connection.type == socket.SOCK_STREAM:
            yield os.fstat(connection.fileno()).st_ino, connection
        else:
            connection.close()
