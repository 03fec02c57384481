"""Defines the interface to ranks: requests go to ranks by `send`, and events come back by a callback.

| transport | carries |
|---|---|
| `cluster.channel.Channel` | a notebook's cells, over ZeroMQ |
| `script.listener.Listener` | one script, over named pipes |
| `script.network_listener.NetworkListener` | one script on several hosts, over ZeroMQ |
| `cluster.simulated_ranks.SimulatedRanks` | either, to ranks that are simulated in this process |

The code that makes a transport passes `on_event`, which is called with each event of the ranks and must not block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_ddl.protocol.requests import Request


class RankTransport(Protocol):
    """Carries requests to ranks, and calls back with their events."""

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:
        """Send a request; do nothing where the ranks are gone, which an event reports.

        Args:
            request: what the ranks are asked.
            ranks: which.
            now: each rank handles it at once, whatever its main thread does; by default in its turn.
        """

    def close(self) -> None:
        """End the connection. Safe to call twice."""
