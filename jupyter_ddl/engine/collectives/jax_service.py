"""Keeps rank 0's coordination services of JAX until every rank has left them.

A rank whose client is connected when the service ends is ended by JAX. The connection of a client that has left ends
with the last object that holds it, and libraries keep some to the end of the process: Flax NNX does, its functions of
`nnx.jit`. So a rank that ends shuts it down itself.

Source: jax 0.10.2, jaxlib: xla/pjrt/distributed/client.h, "Terminating process because the JAX distributed service
detected fatal errors".

Runs on: every rank; on others than rank 0 there is no service to keep.
"""

from __future__ import annotations

import atexit
import sys
import time
from typing import Any

from jupyter_ddl.engine.collectives import sockets

_LOOK_S = 0.01
# As JAX's own end waits for the other processes.
_LEAVE_S = 300.0


class Services:
    """The services of one rank whose own client has left them."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, int]] = []
        # The port of each service that this rank's client has left.
        self._left: set[int] = set()

    def keep(self, state: Any) -> None:
        """Take the service out of JAX's state, so that JAX does not end it: its client leaves."""
        if state.client is None and state.service is None:
            # Ended while the ranks met.
            return
        port = int(state.coordinator_address.rpartition(":")[2])
        self._left.add(port)
        if state.service is not None:
            self._kept.append((state.service, port))
            state.service = None

    def end(self) -> None:
        """End them: every rank has left."""
        while self._kept:
            service, _ = self._kept.pop()
            service.shutdown()

    def end_last(self) -> None:
        """Have the process, at its end, wait for the others to leave.

        To be called after JAX has been imported: then this runs first.
        """
        atexit.register(self._leave)

    def _leave(self) -> None:
        sys.modules["jax.distributed"].shutdown()
        # Rank 0 waits for their end, and the others in MPI_Finalize for rank 0.
        for port in self._left:
            sockets.shut_down(sockets.connections(to_port=port))
        ports = {port for _, port in self._kept}
        due_s = time.monotonic() + _LEAVE_S
        while sockets.has_peers(ports) and time.monotonic() < due_s:
            time.sleep(_LOOK_S)
        self.end()
