"""Connects kernels and browsers: a kernel's state goes to every browser, a browser's control to its kernel."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from jupyter_ddl.protocol.hub_messages import RunLabelled, RunNotice
from jupyter_ddl.server.boards import IDLE_S, Boards
from jupyter_ddl.server.examination import Examination
from jupyter_ddl.server.kernels import Kernels
from jupyter_ddl.server.scripts import Scripts
from jupyter_ddl.server.tails import Tails

if TYPE_CHECKING:
    from logging import Logger
    from pathlib import Path

    from jupyter_ddl.protocol.hub_messages import KernelGone, KernelState

# Threads that read files: a slow file system must not stop the server, nor one reader all others.
_THREADS = 4
MAX_BROWSERS = 64


class Listener(Protocol):
    """One browser, as the hub sees it; `browser.Browser` is one, and imports the hub."""

    def tell(self, message: KernelState | KernelGone | RunNotice | RunLabelled) -> None:
        """Queue a message for the browser."""

    def close(self) -> None:
        """End the connection."""


class Hub:
    """The kernels, the runs that are watched, and the browsers of one Jupyter server.

    Attributes:
        pool: the threads that read files.
        boards: the TensorBoards.
        kernels: those that are connected.
        tails: the watched runs.
        requests: how many are being answered by the pool, or wait for it.
        scheduler: is held by the request that asks the batch scheduler for its jobs.
        timelines: is held by the request that reads a timeline: one takes a minute of a thread where it is large.
        labels: is held by the request that changes a run's labels: it reads them before it writes them.
        examination: what was found when this host was last examined, for the files for support.
    """

    def __init__(self, log: Logger, board_idle_s: float = IDLE_S) -> None:
        self.pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="jupyter_ddl hub")
        self.boards = Boards(self.pool, log, board_idle_s)
        self.kernels = Kernels(self._tell, log, self.boards.open)
        self.tails = Tails(self.pool)
        self._scripts = Scripts(self.pool, self._tell, log)
        self.requests = 0
        self.scheduler = asyncio.Lock()
        self.timelines = asyncio.Lock()
        self.labels = asyncio.Lock()
        self.examination = Examination()
        self._browsers: set[Listener] = set()

    async def open(self, path: Path, base_url: str) -> Path:
        """Accept kernels; return the socket's path, another one if that one is in use."""
        path = await self.kernels.listen(path)
        self.boards.begin(path, base_url)
        return path

    async def close(self) -> None:
        """Disconnect all kernels and browsers."""
        for browser in list(self._browsers):
            browser.close()
        self._scripts.rest()
        self.boards.close()
        await self.kernels.close()
        self.pool.shutdown(wait=False, cancel_futures=True)

    @property
    def is_full(self) -> bool:
        """Whether no more browsers can connect."""
        return len(self._browsers) >= MAX_BROWSERS

    def join(self, browser: Listener) -> None:
        """Send a browser every kernel's state, now and from here on."""
        self._browsers.add(browser)
        self._scripts.begin()
        for state in self.kernels.states():
            browser.tell(state)

    def leave(self, browser: Listener) -> None:
        """Send a browser nothing more."""
        self._browsers.discard(browser)
        if not self._browsers:
            self._scripts.rest()

    def labelled(self, run: str) -> None:
        """Notify all browsers that the labels of a run were changed."""
        self._tell(RunLabelled(run))

    def _tell(self, message: KernelState | KernelGone | RunNotice | RunLabelled) -> None:
        if isinstance(message, RunNotice):
            self.tails.hint(message.run)
        for browser in self._browsers:
            browser.tell(message)
