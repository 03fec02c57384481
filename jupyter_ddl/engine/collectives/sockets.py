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
# What gloo says where a peer's connection has ended. Source: gloo, gloo/transport/tcp/pair.cc
_ENDED = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")


def says_ended(text: str) -> bool:
    """Return whether the text of an error of gloo's says that a peer's connection has ended."""
    return any(ended in text for ended in _ENDED)


def connections(
    *, without_port: int | None = None, to_port: int | None = None, at_ports: Collection[int] | None = None
) -> set[int]:
    """Return this process's TCP connections, by their inodes, which no later one gets.

    Args:
        without_port: connections from or to this port are left out.
        to_port: only those to this port of a peer.
        at_ports: only those from or to one of these.
    """
    found = set()
    for inode, connection in _connections():
        with connection, suppress(OSError):
            own, peer = connection.getsockname()[1], connection.getpeername()[1]
            is_at = at_ports is None or own in at_ports or peer in at_ports
            if without_port not in (own, peer) and to_port in (None, peer) and is_at:
                found.add(inode)
    return found


def listeners() -> dict[int, int]:
    """Return the ports at which this process listens, by the sockets' inodes."""
    found = {}
    for inode, listener in _connections():
        with listener, suppress(OSError):
            if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found[inode] = int(listener.getsockname()[1])
    return found


def has_peers(ports: Collection[int]) -> bool:
    """Return whether other processes are connected to servers of this one at these ports."""
    own, peers = set(), set()
    for _, connection in _connections():
        with connection, suppress(OSError):
            peer = connection.getpeername()
            own.add(connection.getsockname())
            if connection.getsockname()[1] in ports:
                peers.add(peer)
    return bool(peers - own)


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
