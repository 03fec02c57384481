"""Ends a rank whose controller stays away: its host is down, or the network to it is.

MPI's daemons wait for such a host for many minutes, and the ranks would hold their GPUs until then. The controller's
heartbeats say that it is there.

Runs on: every rank that has a controller on another host.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import zmq

from jupyter_ddl.host.lost_after import host_lost_after_s
from jupyter_ddl.protocol.exit_statuses import CONTROLLER_AWAY

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOPBACK = "tcp://127."
_TICK_S = 1.0
# The kernel gives up a host before that host's ranks give up the kernel.
_LONGER = 1.5


def watch_controller(
    address: str, server_key: bytes | None, end: Callable[[int, str], object], lost_after_s: float | None = None
) -> None:
    """End this rank once its controller has sent no heartbeat for longer than a host may stay away.

    Args:
        address: where the controller sends its heartbeats.
        server_key: the controller's public key; None where it has none.
        end: called in a thread with a status and why.
        lost_after_s: how long a host may stay away, in seconds; by default as the environment says.
    """
    seconds = _LONGER * (host_lost_after_s() if lost_after_s is None else lost_after_s)
    if address.startswith(_LOOPBACK) or math.isinf(seconds):
        return

    def work() -> None:
        wait_until_away(address, server_key, seconds)
        end(CONTROLLER_AWAY, f"nothing came from its controller for {seconds:.0f} s")

    threading.Thread(target=work, name="jupyter_ddl controller watch", daemon=True).start()


def wait_until_away(address: str, server_key: bytes | None, seconds: float, tick_s: float = _TICK_S) -> None:
    """Return once no heartbeat has come for a time in which this process could run.

    A process that was stopped meanwhile has heartbeats to read, so ticks are counted, and no clock is read.
    """
    with zmq.Context() as context, context.socket(zmq.SUB) as heartbeats:
        heartbeats.linger = 0
        if server_key:
            heartbeats.curve_serverkey = server_key
            heartbeats.curve_publickey, heartbeats.curve_secretkey = zmq.curve_keypair()
        heartbeats.subscribe(b"")
        heartbeats.connect(address)
        missed = 0
        while missed * tick_s < seconds:
            missed += 1
            if heartbeats.poll(int(tick_s * 1000)):
                heartbeats.recv_multipart()
                missed = 0
