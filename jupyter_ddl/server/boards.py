"""Keeps the TensorBoards of one Jupyter server: one process a folder of logs, started when it is asked for.

Each listens on a unix socket of mode 0600 in a folder of mode 0700. It ends with the server, however that ends, and
when it was not used for a while; a request to one that has ended starts it again.

Runs on: Jupyter server, in its event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.paths import RUNTIME_VARIABLE
from jupyter_ddl.runs.store import find
from jupyter_ddl.server.kernels import is_alive
from jupyter_ddl.tensorboard.installed import check_installed
from jupyter_ddl.tensorboard.log_folders import checked, own_folder

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from logging import Logger
    from pathlib import Path

    from jupyter_ddl.protocol.hub_messages import BoardAsked

# Below base_url.
PATH = "jupyter-ddl/tensorboard/"
IDLE_S = 1800.0
MAX_BOARDS = 8
_BACKLOG = 128
_SUFFIX = "-tb"
_LOG_CHARACTERS = 600
_REAP_S = 10.0


@dataclass
class Board:
    """One folder of logs.

    Attributes:
        name: in addresses: a run's id, or what the folder's path comes to.
        number: of its files, among those of this server.
        logs: the folder; None where a run's scalars are written for it.
        run: the run's folder; None where the logs are a program's own.
        used_s: when a request began or ended last, as `time.monotonic`.
        requests: how many are being answered.
        process: that serves it; None before the first request, and while it is ended.
    """

    name: str
    number: int
    logs: Path | None = None
    run: Path | None = None
    used_s: float = field(default_factory=time.monotonic)
    requests: int = 0
    process: subprocess.Popen[bytes] | None = None

    def touch(self) -> None:
        """Note that it is used."""
        self.used_s = time.monotonic()

    @property
    def runs(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and self.process.poll() is None


class Boards:
    """The TensorBoards. All methods are called in the server's loop.

    Args:
        pool: where files are read.
        log: the server's.
        idle_s: one that is used for so long by no request is ended.
    """

    def __init__(self, pool: Executor, log: Logger, idle_s: float) -> None:
        self._pool = pool
        self._log = log
        self._base_url = "/"
        self._idle_s = idle_s
        self._folder: Path | None = None
        self._boards: dict[str, Board] = {}
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None

    def begin(self, hub: Path, base_url: str) -> None:
        """Have a folder for the sockets.

        Args:
            base_url: the server's.
            hub: the hub's own socket, which no other server has: the folder is named by it. What servers of this host
                that were killed have left is removed.
        """
        self._base_url = base_url
        self._folder = hub.with_name(hub.name + _SUFFIX)
        host = hub.name.partition("-")[0]
        for folder in hub.parent.glob(f"{host}-*{_SUFFIX}"):
            if folder == self._folder or not is_alive(folder.with_name(folder.name.removesuffix(_SUFFIX))):
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End all."""
        if self._task is not None:
            self._task.cancel()
        for board in self._boards.values():
            self._end(board)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def running(self) -> list[Board]:
        """Return those whose process lives."""
        return [board for board in self._boards.values() if board.runs]

    async def open(self, asked: BoardAsked) -> str:
        """Open the board of a folder of logs, or of a run; return its address, from the server's root on.

        A run's is of the logs that its program wrote, where these are known, else of its scalars.

        Raises:
            InvalidInput: what is asked for is not there, or TensorBoard is not installed.
            OSError: it cannot be started.
        """
        logs, run = await asyncio.get_running_loop().run_in_executor(self._pool, _meant, asked)
        name = asked.run if logs is None and asked.run else hashlib.sha256(os.fsencode(logs or "")).hexdigest()[:16]
        board = self._boards.get(name)
        if board is None:
            board = self._boards[name] = Board(name, next(self._numbers), logs, run)
        self._start(board)
        return f"{self._base_url}{PATH}{name}/"

    def find(self, name: str) -> Board | None:
        """Return a board that was opened; None where there is none of that name."""
        return self._boards.get(name)

    def end(self, board: Board) -> None:
        """End a board for good: its address leads nowhere until it is opened again."""
        self._boards.pop(board.name, None)
        self._end(board)

    async def connect(self, board: Board) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a board, which is started where it has ended.

        Raises:
            OSError: it cannot be started.
        """
        self._start(board)
        return await asyncio.open_unix_connection(str(self._socket(board)))

    def last_words(self, board: Board) -> str:
        """Return the end of what a board's process printed."""
        try:
            return (self._place(board) / "log").read_text(errors="replace")[-_LOG_CHARACTERS:].strip()
        except OSError:
            # Ended, and removed.
            return ""

    def _start(self, board: Board) -> None:
        board.touch()
        if board.runs:
            return
        self._end(board)
        running = sorted(self.running(), key=lambda one: (one.requests > 0, one.used_s))
        for oldest in running[: max(0, len(running) - MAX_BOARDS + 1)]:
            self._end(oldest)
        place = self._place(board)
        private_folder(place, variable=RUNTIME_VARIABLE)
        listening = socket.socket(socket.AF_UNIX)
        with listening, (place / "log").open("wb") as log:
            path = self._socket(board)
            listening.bind(str(path))
            # Before any process can connect. From here on requests wait until TensorBoard answers them.
            path.chmod(0o600)
            listening.listen(_BACKLOG)
            board.process = subprocess.Popen(
                [*self._command(board, place), "--socket", str(listening.fileno()), "--parent", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=place,
                pass_fds=(listening.fileno(),),
                # A group of its own: what it starts ends with it, and Ctrl-C in the server's terminal is the server's.
                start_new_session=True,
            )
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._end_idle())

    def _command(self, board: Board, place: Path) -> list[str]:
        of_run = [] if board.run is None else ["--run", str(board.run)]
        logs = str(board.logs or place / "logs")
        return [sys.executable, "-m", "jupyter_ddl.tensorboard.program", "--logs", logs, *of_run]

    def _end(self, board: Board) -> None:
        """End a board's process, which only reads, and remove what was written for it."""
        process, board.process = board.process, None
        if process is None:
            return
        if process.poll() is None:
            # Its own session, and ours: it has not been waited for yet.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._socket(board).unlink(missing_ok=True)
        shutil.rmtree(self._place(board), ignore_errors=True)

    async def _end_idle(self) -> None:
        """End those that are not used any more."""
        while self._boards:
            await asyncio.sleep(min(_REAP_S, self._idle_s / 4))
            for board in self.running():
                if not board.requests and time.monotonic() - board.used_s > self._idle_s:
                    self._log.info("jupyter_ddl: the TensorBoard %s was idle, and was ended", board.name)
                    self._end(board)

    def _place(self, board: Board) -> Path:
        """Return the folder of a board's files."""
        return self._own_folder() / f"{board.number}.d"

    def _socket(self, board: Board) -> Path:
        # Its path is short: Linux allows 107 bytes, of which the hub's own takes up to 100.
        return self._own_folder() / str(board.number)

    def _own_folder(self) -> Path:
        if self._folder is None:
            raise InvalidInput(
                "TensorBoard takes a folder of this user's for its socket.",
                "none: the hub could not make its own, as the server's log says",
                f"Set {RUNTIME_VARIABLE} to a folder that is yours alone.",
            )
        return self._folder


def _meant(asked: BoardAsked) -> tuple[Path | None, Path | None]:
    """Return the folder of logs, or the run's folder where its scalars are to be written.

    Raises:
        InvalidInput: as `Boards.open`.
    """
    check_installed()
    if asked.run is None:
        return checked(asked.folder or ""), None
    record = find(asked.run)
    if record is None:
        raise InvalidInput("A run is named by its id.", f"{asked.run[:80]!r}, which is no run", "%ddl runs lists them.")
    logs = own_folder(record)
    return (None, record.path) if logs is None else (logs, None)
