"""Asks what the hosts of a cluster have, once, and keeps the answers: GPUs, how they are joined, network interfaces.

A rank on each host reads it, so that no kernel touches a GPU.

Runs on: kernel.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.host_topology import topology_record
from jupyter_ddl.protocol.rank_answers import HostDescribed
from jupyter_ddl.protocol.requests import DescribeHost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.host_topology import HostTopology
    from jupyter_ddl.protocol.rank_life import RankReady
    from jupyter_ddl.protocol.transport import RankTransport

# A driver without its persistence mode initialises each GPU first.
ANSWER_S = 10.0


class HostTopologies:
    """What each host of one cluster has. Safe to use from any thread.

    Args:
        ranks: rank -> what it reported of itself; all are ready.
        transport: asks them; `handle` gets the events.
    """

    def __init__(self, ranks: Mapping[int, RankReady], transport: RankTransport) -> None:
        self._transport = transport
        self._changed = threading.Condition()
        self._ranks: dict[str, list[int]] = {}
        for rank, ready in sorted(ranks.items()):
            self._ranks.setdefault(ready.host, []).append(rank)
        self._found: dict[str, HostTopology] = {}
        # Of all that was found: each cell asks.
        self._record: dict[str, Any] | None = None

    def ask(self) -> None:
        """Ask one rank of each host, without waiting."""
        self._transport.send(DescribeHost(), [ranks[0] for ranks in self._ranks.values()], now=True)

    def handle(self, event: Event) -> None:
        """Take an event of the ranks."""
        if isinstance(event, HostDescribed):
            with self._changed:
                self._found[event.host] = event.topology
                self._record = None
                self._changed.notify_all()

    def wait(self, timeout_s: float = ANSWER_S) -> dict[str, HostTopology | None]:
        """Return host -> what it has, in the order of ranks; None where no rank of it has answered in time.

        Args:
            timeout_s: how long to wait, in seconds.
        """
        # The first rank may have been in C code that kept Python's lock, where another one can answer.
        missing = [rank for host, ranks in self._ranks.items() if host not in self._found for rank in ranks]
        if missing:
            self._transport.send(DescribeHost(), missing, now=True)
        with self._changed:
            self._changed.wait_for(lambda: self._found.keys() >= self._ranks.keys(), timeout_s)
            return {host: self._found.get(host) for host in self._ranks}

    def record(self) -> dict[str, Any]:
        """Return what is known by now, as a run's record has it."""
        with self._changed:
            if self._record is None:
                self._record = topology_record({host: self._found[host] for host in self._ranks if host in self._found})
            return self._record
