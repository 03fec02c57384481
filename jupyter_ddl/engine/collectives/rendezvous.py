"""Lets all ranks of a run meet, and tells them a number that rank 0 chooses, such as a port.

Each rank connects to rank 0 and says where in the run it is; rank 0 answers when all are there. A rank that is released
closes its connection, and leaves nothing behind that the next barrier would have to clear away, as a request of MPI's
or a file would. All waits are in Python, where an interrupt ends them.

Runs on: every rank.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.engine.collectives.meeting_point import MeetingPoint

    Wait = Callable[[Sequence[int]], None]

_CONNECT_S = 1.0
_LINE_BYTES = 512


class Rendezvous:
    """Barriers of all ranks of one world.

    Args:
        point: where rank 0 listens; nothing else may use it.
        rank: this one.
        size: how many there are.
    """

    def __init__(self, point: MeetingPoint, rank: int, size: int) -> None:
        self._point = point
        self._rank = rank
        self._size = size
        self._is_listening = False
        # Of rank 0: connections that have not said all yet, and those of a barrier by its name and rank.
        self._unread: list[tuple[socket.socket, bytes]] = []
        self._present: dict[tuple[str, int], socket.socket] = {}

    def meet(self, name: str, choose: Callable[[], int], wait: Wait) -> int:
        """Wait for all ranks; return what rank 0 has chosen.

        Collective: every rank must call this.

        Args:
            name: of the barrier, the same on all ranks, and another one each time. It has no spaces.
            choose: called on rank 0, when all are there.
            wait: called as often as there is nothing to do, with the ranks that are missing, none where rank 0 knows
                them; it waits a moment, and may raise.
        """
        if self._rank == 0:
            return self._hold(name, choose, wait)
        while True:
            with suppress(OSError), socket.create_connection(self._address, timeout=_CONNECT_S) as connection:
                connection.sendall(f"{name} {self._rank}\n".encode())
                if (answer := self._answer(connection, wait)) is not None:
                    return answer
            wait((0,))

    @property
    def _address(self) -> tuple[str, int]:
        return self._point.address, self._point.port

    def _answer(self, connection: socket.socket, wait: Wait) -> int | None:
        """Return rank 0's answer; None where it has left the barrier without one."""
        connection.setblocking(False)
        said = b""
        while not said.endswith(b"\n"):
            try:
                more = connection.recv(_LINE_BYTES)
            except BlockingIOError:
                wait(())
                continue
            if not more:
                return None
            said += more
        return int(said)

    def _hold(self, name: str, choose: Callable[[], int], wait: Wait) -> int:
        try:
            while missing := [rank for rank in range(1, self._size) if (name, rank) not in self._present]:
                self._look()
                wait(missing)
            chosen = choose()
            for rank in range(1, self._size):
                # OSError: it has been released at this moment.
                with suppress(OSError), self._present.pop((name, rank)) as connection:
                    connection.sendall(f"{chosen}\n".encode())
        finally:
            for rank in range(1, self._size):
                if (left := self._present.pop((name, rank), None)) is not None:
                    left.close()
        return chosen

    def _look(self) -> None:
        """Take new connections, read what they say, and forget those whose rank has gone."""
        listener = self._point.listener
        assert listener is not None
        if not self._is_listening:
            listener.listen(self._size)
            listener.setblocking(False)
            self._is_listening = True
        with suppress(BlockingIOError):
            while True:
                connection, _ = listener.accept()
                connection.setblocking(False)
                self._unread.append((connection, b""))
        unread, self._unread = self._unread, []
        for connection, said in unread:
            more = _read(connection)
            if more is None or len(said) > _LINE_BYTES:
                connection.close()
            elif not (said + more).endswith(b"\n"):
                self._unread.append((connection, said + more))
            else:
                self._note((said + more).decode(errors="replace"), connection)
        # Last: a rank may have gone before its line was read.
        for at, connection in list(self._present.items()):
            if _read(connection) is None:
                self._present.pop(at).close()

    def _note(self, line: str, connection: socket.socket) -> None:
        name, _, rank = line.strip().rpartition(" ")
        if rank.isdigit() and 0 < int(rank) < self._size:
            if (gone := self._present.pop((name, int(rank)), None)) is not None:
                gone.close()
            self._present[name, int(rank)] = connection
        else:
            # Another process has found the port.
            connection.close()


def _read(connection: socket.socket) -> bytes | None:
    """Return what has come since; None where the other end has closed."""
    try:
        return connection.recv(_LINE_BYTES) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None
