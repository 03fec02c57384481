"""The store at which the ranks make torch's process groups: rank 0's process serves it for as long as the rank lives.

Runs on: every rank, where a program has imported torch.distributed. Nothing here imports torch before it is called.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.engine.collectives.meeting_point import MeetingPoint

_CONNECT_S = 1.0


class RankStore:
    """The store of one world of ranks, on one of them.

    Args:
        point: where rank 0 serves it; rank 0's has the socket.
        world_size: the number of ranks.
    """

    def __init__(self, point: MeetingPoint, world_size: int) -> None:
        self._point = point
        self._world_size = world_size
        self._server: Any = None

    def serve(self) -> None:
        """Serve it from here on, on rank 0; on another rank do nothing."""
        listener = self._point.listener
        if listener is not None and self._server is None:
            import torch

            listener.listen(self._world_size)
            # Before 2.8 only the store without libuv takes a socket. Source: PyTorch's pull request 150215.
            uses_libuv = torch.__version__ >= "2.8"
            self._server = self._made(is_master=True, master_listen_fd=listener.detach(), use_libuv=uses_libuv)

    def is_served(self) -> bool:
        """Return whether rank 0 serves it by now."""
        address = (self._point.address, self._point.port)
        with suppress(OSError), socket.create_connection(address, timeout=_CONNECT_S):
            return True
        return False

    def connect(self) -> Any:
        """Return a connection, whose calls wait as long as torch's do."""
        return self._made(is_master=False)

    def connection(self) -> Any:
        """Return a connection beside that of the program, which waits on its own; None while it is not served."""
        return self._made(is_master=False, timeout=timedelta(seconds=_CONNECT_S)) if self.is_served() else None

    def _made(self, **options: Any) -> Any:
        from torch.distributed import TCPStore

        return TCPStore(self._point.address, self._point.port, self._world_size, wait_for_workers=False, **options)
