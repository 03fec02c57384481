"""Reads a run's events as they come: those that are there, and then what is new.

Runs on: TensorBoard's process, a terminal.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.events import RunFinished
from jupyter_ddl.runs.reading import event_of, run_events
from jupyter_ddl.runs.store import RUNNING, UNKNOWN, read_record

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.events import Event

_STEP_BYTES = 4 << 20
# How often to check that the kernel that records a quiet run still lives.
_ALIVE_S = 2.0


class RunEvents:
    """The events of one run, in order.

    Attributes:
        is_over: no more will come, and `read` has returned all.
    """

    def __init__(self, folder: Path) -> None:
        self.is_over = False
        self._folder = folder
        self._position = 0
        self._count = 0
        self._looked_s: float | None = None

    def read(self) -> list[Event]:
        """Return the next events, some megabytes of them at most; none where nothing is new, or `is_over`."""
        if self.is_over:
            return []
        lines, self._position = untrusted_files.lines_from(self._folder / "events.jsonl", self._position, _STEP_BYTES)
        events = [event for event in map(event_of, lines) if event is not None]
        self._count += len(events)
        if any(isinstance(event, RunFinished) for event in events):
            self.is_over = True
        elif not lines and self._has_ended():
            self.is_over = True
            # What came since, and what the ranks wrote after their kernel was killed.
            return list(islice(run_events(self._folder), self._count, None))
        return events

    def _has_ended(self) -> bool:
        now_s = time.monotonic()
        if self._looked_s is not None and now_s - self._looked_s < _ALIVE_S:
            return False
        self._looked_s = now_s
        return read_record(self._folder).state not in (RUNNING, UNKNOWN)
