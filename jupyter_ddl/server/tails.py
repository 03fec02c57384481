"""Follows the runs that are watched, and reads no others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jupyter_ddl.runs.store import find
from jupyter_ddl.server.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

# How often a run's folder is checked for growth if its kernel is not connected.
INTERVAL_S = 0.5


class Tails:
    """Follows each watched run, once for all its listeners.

    Args:
        pool: where files are read.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._watched: dict[str, _Watched] = {}

    async def watch(self, run: str, listener: Callable[[], None]) -> Tail | None:
        """Call `listener` when a run has more events, until `unwatch`; return its events, None for no run."""
        record = await asyncio.get_running_loop().run_in_executor(self._pool, find, run)
        if record is None:
            return None
        watched = self._watched.get(run)
        if watched is None:
            watched = self._watched[run] = _Watched(Tail(record.path), self._pool)
        watched.listeners.append(listener)
        return watched.tail

    def unwatch(self, run: str, listener: Callable[[], None]) -> None:
        """Remove a listener; the run's events are dropped with the last one."""
        watched = self._watched.get(run)
        if watched is None or listener not in watched.listeners:
            return
        watched.listeners.remove(listener)
        if not watched.listeners:
            watched.task.cancel()
            del self._watched[run]

    def hint(self, run: str) -> None:
        """Read a run's folder at once, since it has begun or ended."""
        if run in self._watched:
            self._watched[run].hint.set()


class _Watched:
    """One watched run."""

    def __init__(self, tail: Tail, pool: Executor) -> None:
        self.tail = tail
        self.listeners: list[Callable[[], None]] = []
        self.hint = asyncio.Event()
        self.task = asyncio.create_task(self._follow(pool))

    async def _follow(self, pool: Executor) -> None:
        loop = asyncio.get_running_loop()
        known = -1
        while True:
            try:
                has_more = await loop.run_in_executor(pool, self.tail.read_on)
            except Exception as error:  # noqa: BLE001
                # No code awaits this task: the listeners learn of the failure from the tail.
                self.tail.fault = error
                self._notify()
                return
            if has_more:
                continue
            if known != self.tail.next or self.tail.is_over:
                known = self.tail.next
                self._notify()
            if self.tail.is_over:
                return
            try:
                await asyncio.wait_for(self.hint.wait(), INTERVAL_S)
            except asyncio.TimeoutError:
                continue
            self.hint.clear()

    def _notify(self) -> None:
        for listener in self.listeners:
            listener()
