"""The runs of `jupyter ddl run`, as the folder of runs shows them: no kernel reports them.

While browsers are connected, the newest runs are looked at once a second. What a look costs does not depend on how
many runs there are.
"""

from __future__ import annotations

import asyncio
import time
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from jupyter_ddl import paths
from jupyter_ddl.protocol.hub_messages import RunNotice
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.runs.store import CUT_OFF, RUNNING, UNKNOWN, find, newest_first
from jupyter_ddl.views.fault import in_short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor
    from logging import Logger

    from jupyter_ddl.protocol.events import Outcome
    from jupyter_ddl.runs.store import RunRecord

INTERVAL_S = 1.0
# A run's folder is made before its record is written, and the clock of a shared file system may be another one.
_SLACK_S = 10.0
# Of runs: what runs is among the newest.
_FIRST_LOOK = 200
# This many runs are remembered before those that were deleted are dropped; later, twice as many as were left.
_CROWDED = 1000


class Scripts:
    """Notices of scripts that begin and end.

    Args:
        pool: where files are read.
        tell: called with each notice, in the loop's thread.
        log: the server's.
    """

    def __init__(self, pool: Executor, tell: Callable[[RunNotice], None], log: Logger) -> None:
        self._pool = pool
        self._tell = tell
        self._log = log
        self._since_s: float | None = None
        self._seen: set[str] = set()
        self._crowded = _CROWDED
        self._running: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look from here on. Safe to call twice."""
        if self._task is None or self._task.done():
            self._since_s = None
            self._task = asyncio.get_running_loop().create_task(self._follow())

    def rest(self) -> None:
        """Stop looking. Safe to call twice."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        has_failed = False
        while True:
            notices = []
            try:
                notices = await loop.run_in_executor(self._pool, self.look)
                has_failed = False
            except Exception:  # noqa: BLE001  no other task awaits this one, and the next look may succeed
                if not has_failed:
                    self._log.exception("jupyter_ddl: scripts cannot be looked at; they are noticed once they can")
                has_failed = True
            for notice in notices:
                self._tell(notice)
            await asyncio.sleep(INTERVAL_S)

    def look(self) -> list[RunNotice]:
        """Return what has begun and what has ended since the last look; at the first, what runs.

        One that raises changes nothing: the next look finds the same.
        """
        began_s = time.time()
        newest = [record for record in self._newest() if record.script is not None]
        begun = [record for record in newest if record.run not in self._seen and record.state != UNKNOWN]
        notices = [_notice(record, RUNNING) for record in begun]
        running = set()
        for run in sorted(self._running | {record.run for record in begun}):
            found = find(run)
            # None: it was deleted.
            if found is not None and found.state == RUNNING:
                running.add(run)
            elif found is not None:
                notices.append(_notice(found, found.state))
        self._seen = self._existing(self._seen | {record.run for record in newest})
        self._since_s, self._running = began_s, running
        return notices

    def _existing(self, seen: set[str]) -> set[str]:
        """Return what was seen without the runs that were deleted, which cannot come again: looked at now and then."""
        if len(seen) < self._crowded:
            return seen
        runs = paths.runs_dir()
        existing = {run for run in seen if (runs / run).exists()}
        self._crowded = max(_CROWDED, 2 * len(existing))
        return existing

    def _newest(self) -> Iterable[RunRecord]:
        """Return the runs that may be new, the newest first."""
        since_s = self._since_s
        if since_s is None:
            return (record for record in islice(newest_first(), _FIRST_LOOK) if record.state == RUNNING)
        return takewhile(lambda record: record.start_s >= since_s - _SLACK_S, newest_first())


def _notice(record: RunRecord, state: str) -> RunNotice:
    """Return the notice of a script's run, under the script's name: it has no kernel."""
    fault = None
    if state != RUNNING and record.fault is not None and record.fault.kind != "interrupted":
        fault = in_short(record.fault)
    # A notice knows no other word for a run whose terminal was killed.
    outcome = cast("Outcome", "interrupted" if state == CUT_OFF else state)
    name = Path(record.script or "").name
    return RunNotice(name, record.run, outcome, ranks=compact(record.ranks), seconds=record.seconds, fault=fault)
