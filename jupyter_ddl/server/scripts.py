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
        self._running: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look from here on. Safe to call twice."""
        if self._task is None:
            self._since_s = None
            self._task = asyncio.get_running_loop().create_task(self._follow())

    def rest(self) -> None:
        """Stop looking. Safe to call twice."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                notices = await loop.run_in_executor(self._pool, self.look)
            except Exception:  # noqa: BLE001
                # No other task awaits this one, and the list of runs is read without it too.
                self._log.exception("jupyter_ddl: scripts are not noticed any more")
                return
            for notice in notices:
                self._tell(notice)
            await asyncio.sleep(INTERVAL_S)

    def look(self) -> list[RunNotice]:
        """Return what has begun and what has ended since the last look; at the first, what runs."""
        began_s = time.time()
        notices = []
        for record in self._newest():
            if record.script is not None and record.run not in self._seen:
                self._seen.add(record.run)
                if record.state != UNKNOWN:
                    self._running.add(record.run)
                    notices.append(_notice(record, RUNNING))
        self._since_s = began_s
        for run in sorted(self._running):
            found = find(run)
            if found is None:
                # It was deleted.
                self._running.discard(run)
            elif found.state != RUNNING:
                self._running.discard(run)
                notices.append(_notice(found, found.state))
        return notices

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
