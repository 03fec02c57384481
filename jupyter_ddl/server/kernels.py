"""Serves the kernels' side of the hub: a unix socket of this user's, one connection a kernel, and pending controls."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from jupyter_ddl.errors import DdlError
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.hub_messages import (
    Answer,
    BoardAsked,
    Control,
    KernelGone,
    KernelState,
    RunNotice,
    from_kernel,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from logging import Logger
    from pathlib import Path

MAX_KERNELS = 256
# The stacks of a thousand ranks, or their states, are some megabytes.
MAX_LINE_BYTES = 16 << 20
# Limits what waits for a kernel that does not read.
MAX_WAITING_BYTES = 4 << 20
ANSWER_S = 30.0
# Ranks start and end slowly: `cluster.lifecycle` has its own limit for each. A profile is taken of a minute at most.
PATIENCE_S = {"restart": 330.0, "stop": 90.0, "profile": 90.0}
_CREDENTIALS = struct.Struct("3i")


class Kernels:
    """The kernels that are connected.

    Args:
        tell: called with their states.
        log: the server's.
        open_board: opens what a kernel asks to show in TensorBoard; returns its address.
    """

    def __init__(
        self,
        tell: Callable[[KernelState | KernelGone | RunNotice], None],
        log: Logger,
        open_board: Callable[[BoardAsked], Awaitable[str]],
    ) -> None:
        self._tell = tell
        self._log = log
        self._open_board = open_board
        self._server: asyncio.AbstractServer | None = None
        self._path: Path | None = None
        self._connections: set[_Connection] = set()
        self._serving: set[asyncio.Task[None]] = set()
        # Jupyter's id of a kernel -> its newest connection: a kernel that was restarted keeps its id.
        self._kernels: dict[str, _Connection] = {}

    async def listen(self, path: Path) -> Path:
        """Accept connections; return the path: one beside `path` if another server has that one.

        Raises:
            OSError: there can be no socket.
        """
        if is_alive(path):
            path = path.with_name(f"{path.name}-{os.getpid()}")
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        # Before any process can connect.
        path.chmod(0o600)
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=MAX_LINE_BYTES)
        self._path = path
        return path

    async def close(self) -> None:
        """Disconnect all kernels, which then try to reconnect."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        await asyncio.gather(*self._serving)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def states(self) -> list[KernelState]:
        """Return each kernel's last state."""
        return [connection.state for connection in self._kernels.values() if connection.state is not None]

    async def ask(self, control: Control) -> Answer:
        """Send a kernel a control; return its answer, or why there is none."""
        connection = self._kernels.get(control.kernel)
        if connection is None:
            return Answer(
                control.id,
                error=f"A control is for a kernel that is connected. Received: {control.kernel[:80]!r}, which is not. "
                "Run %load_ext jupyter_ddl in it.",
            )
        return replace(await connection.ask(control), id=control.id)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a kernel's messages until it disconnects."""
        peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(peer)
        if uid != os.getuid() or len(self._connections) >= MAX_KERNELS:
            self._log.warning(
                "jupyter_ddl: a process of user %d was refused; %d connected", uid, len(self._connections)
            )
            writer.close()
            return
        connection = _Connection(writer)
        self._connections.add(connection)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            while line := await reader.readline():
                message = from_kernel(line)
                if isinstance(message, BoardAsked):
                    connection.send(await self._board(message))
                else:
                    self._take(connection, message)
        except ConnectionError:
            # It was killed.
            pass
        except ValueError as error:
            # No message of ours, or a line over MAX_LINE_BYTES.
            self._log.warning("jupyter_ddl: a kernel was disconnected: %s", error)
        finally:
            self._part(connection)

    async def _board(self, asked: BoardAsked) -> Answer:
        try:
            return Answer("board", await self._open_board(asked))
        except (DdlError, OSError) as error:
            return Answer("board", error=str(error))

    def _take(self, connection: _Connection, message: KernelState | RunNotice | Answer) -> None:
        if isinstance(message, Answer):
            connection.answered(message)
            return
        if isinstance(message, KernelState):
            connection.state = message
            self._kernels[message.kernel] = connection
        self._tell(message)

    def _part(self, connection: _Connection) -> None:
        connection.close()
        self._connections.discard(connection)
        state = connection.state
        if state is not None and self._kernels.get(state.kernel) is connection:
            del self._kernels[state.kernel]
            self._tell(KernelGone(state.kernel))


class _Connection:
    """One kernel, and its pending controls.

    Attributes:
        state: its last state.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.state: KernelState | None = None
        self._writer = writer
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[Answer]] = {}

    async def ask(self, control: Control) -> Answer:
        """Return the kernel's answer, or an error where there is none."""
        assert self.state is not None
        number = str(next(self._numbers))
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        patience_s = PATIENCE_S.get(control.do, ANSWER_S)
        try:
            self.send(replace(control, id=number))
            return await asyncio.wait_for(future, patience_s)
        except asyncio.TimeoutError:
            return Answer(
                number,
                error=f"A kernel must answer within {patience_s:g} s. Received: nothing to {control.do[:20]!r} from "
                f"process {self.state.pid}. It may be stopped, or in C code that holds Python's lock.",
            )
        finally:
            del self._waiting[number]

    def answered(self, answer: Answer) -> None:
        """Take an answer; one that comes too late is dropped."""
        future = self._waiting.get(answer.id)
        if future is not None and not future.done():
            future.set_result(answer)

    def close(self) -> None:
        """Disconnect the kernel; its pending controls get an error. Safe to call twice."""
        self._writer.close()
        for number, future in self._waiting.items():
            if not future.done():
                error = "A kernel must live to answer. Received: its connection ended. Ask again once it is back."
                future.set_result(Answer(number, error=error))

    def send(self, message: Control | Answer) -> None:
        """Send a message; a kernel that does not read what it was sent is disconnected."""
        if self._writer.transport.get_write_buffer_size() > MAX_WAITING_BYTES:
            self.close()
        if not self._writer.is_closing():
            self._writer.write(as_line(message))


def is_alive(path: Path) -> bool:
    """Return whether a process listens at a path."""
    with socket.socket(socket.AF_UNIX) as client:
        # A suspended server does not accept it.
        client.settimeout(1.0)
        try:
            client.connect(str(path))
        except TimeoutError:
            return True
        except OSError:
            return False
    return True
