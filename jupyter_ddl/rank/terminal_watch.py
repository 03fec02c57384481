"""Notices that the terminal of a script is gone: it was killed, its host is down, or the network to it is.

On a connection of its own, over which nothing goes, Linux asks the other host, and not the program there, whether it is
still there: a terminal that is stopped, or does not read, is not gone.

Runs on: beside every rank of a script whose ranks are on several hosts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import zmq

from jupyter_ddl.host.lost_after import host_lost_after_s

if TYPE_CHECKING:
    from jupyter_ddl.protocol.script_frames import Connection

# The terminal gives up a host before that host's ranks give up the terminal.
_LONGER = 1.5
_PROBES = 5


class TerminalWatch:
    """The connection that breaks when the terminal is gone.

    Args:
        context: of the relay.
        connection: where the terminal is.

    Attributes:
        events: can be read once it has broken.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], connection: Connection) -> None:
        self._socket = made = context.socket(zmq.DEALER)
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.IPV6, 1)
        # One that was refused, or broke, is not made again.
        made.setsockopt(zmq.RECONNECT_IVL, -1)
        for option, value in _keepalive(_LONGER * host_lost_after_s()).items():
            made.setsockopt(option, value)
        made.curve_publickey, made.curve_secretkey = zmq.curve_keypair()
        made.curve_serverkey = connection.server_key.encode()
        self.events = made.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        made.connect(connection.address)


def _keepalive(seconds: float) -> dict[int, int]:
    """Return the options by which a connection breaks when the other host has been away for a time.

    Source: tcp(7), TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT.
    """
    if math.isinf(seconds):
        return {}
    between_s = max(1, round(seconds / (2 * _PROBES)))
    return {
        zmq.TCP_KEEPALIVE: 1,
        zmq.TCP_KEEPALIVE_IDLE: max(1, round(seconds) - _PROBES * between_s),
        zmq.TCP_KEEPALIVE_INTVL: between_s,
        zmq.TCP_KEEPALIVE_CNT: _PROBES,
    }
