"""Finds the connections of JAX's gloo, by the ports at which the ranks' gloo listens, and ends them.

Each rank publishes its port by the coordination service before its backends are made, which all ranks do together.

Runs on: every rank.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.collectives import sockets
from jupyter_ddl.engine.collectives.gloo_threads import GlooThreads, running

if TYPE_CHECKING:
    from collections.abc import Callable

_KEY = "jupyter_ddl/gloo/"


class Gloo:
    """JAX's gloo on one rank.

    Args:
        rank: this one.
        client: returns this rank's client of the coordination service.
    """

    def __init__(self, rank: int, client: Callable[[], Any]) -> None:
        self._rank = rank
        self._client = client
        self._ports: set[int] = set()
        self._threads = GlooThreads()

    def make(self, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Replace what makes it: it keeps to the ranks' network, and all ranks know its port."""
        before = sockets.listeners()
        if kwargs.get("hostname") is None and kwargs.get("interface") is None:
            # By default it takes the address of the host's own name, which may be one that others do not reach.
            kwargs["interface"] = os.environ.get("GLOO_SOCKET_IFNAME") or None
        threads = running()
        made = stock(*args, **kwargs)
        self._threads.note(running() - threads)
        for inode, port in sockets.listeners().items():
            if inode not in before:
                self._client().key_value_set(f"{_KEY}{self._rank}/{port}", str(port))
        return made

    def learn(self, client: Any) -> None:
        """Learn the ports of all ranks, once their backends have been made."""
        if not self._ports:
            self._ports = {int(port) for _, port in client.key_value_dir_get(_KEY)}

    def shut_down(self) -> None:
        """End its connections: who waits on one, here or at its other end, gets an error."""
        sockets.shut_down(sockets.connections(at_ports=self._ports))

    def forget(self) -> None:
        """Forget the ports: other processes have others."""
        self._ports = set()
