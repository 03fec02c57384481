"""Follows one run's events in its folder, and keeps them as the dashboard does: thinned and bounded.

An event's number is its place in the run's folder, so that a browser that has the first ones can continue after them,
even with another server.

Runs on: Jupyter server, in the hub's threads.
"""

from __future__ import annotations

import threading
import time
from itertools import islice
from typing import TYPE_CHECKING

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.events import MetricsSample, OutputCleared, RichOutput, RunFinished
from jupyter_ddl.protocol.rank_life import RankWarm
from jupyter_ddl.runs.reading import event_of, run_events
from jupyter_ddl.runs.store import RUNNING, UNKNOWN, read_record, single_rank_samples_per_s
from jupyter_ddl.views.event_batches import batch
from jupyter_ddl.views.figures import Figures
from jupyter_ddl.views.history import History
from jupyter_ddl.views.spread import SPREAD_OVER

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.event_batches import Entry
    from jupyter_ddl.views.spread import Spread

STEP_BYTES = 4 << 20
# Characters of output in one message. The excess is in the log files, and counted.
FIRST_TEXT = 1_000_000
BATCH_TEXT = 256_000
# How often to check that the kernel that records a quiet run still lives.
_ALIVE_S = 2.0
# Not shown by any view, and large: numbered, and not read. Older versions wrote a space.
_UNREAD = tuple(
    f'{{"type":{space}"{kind.type}"'.encode() for space in ("", " ") for kind in (RichOutput, OutputCleared, RankWarm)
)


class Tail:
    """The events of one run so far. `read_on` is called by one thread at a time, `batch` by any.

    Attributes:
        is_ready: all events that existed at the start have been read.
        is_over: no more events will come.
        fault: why the run cannot be read any further; None where it can.
        ended: how the run ended, where no event of it says so: "cut off", when its kernel ended. None otherwise.
    """

    def __init__(self, folder: Path) -> None:
        self.is_ready = False
        self.is_over = False
        self.fault: Exception | None = None
        self.ended: str | None = None
        self._folder = folder
        self._events = folder / "events.jsonl"
        self._history = History()
        self._figures = Figures()
        self._lock = threading.Lock()
        self._position = 0
        self._looked_s = 0.0
        self._single: float | None = None
        self._model: str | None = None

    @property
    def next(self) -> int:
        """The number of the event that comes next."""
        return self._history.next

    def read_on(self) -> bool:
        """Read new events, or a part of them; return whether there are more."""
        lines, self._position = untrusted_files.lines_from(self._events, self._position, STEP_BYTES)
        self._keep([None if line.startswith(_UNREAD) else event_of(line) for line in lines], lines)
        if lines:
            return True
        if not self.is_over and not self._goes_on():
            # Events that the ranks wrote after their kernel was killed; none if it was not.
            self._keep(list(islice(run_events(self._folder), self.next, None)))
            if not self.is_over:
                self.ended = read_record(self._folder).state
            self.is_over = True
        self.is_ready = True
        return False

    def batch(self, since: int, spread: Spread[Entry] | None = None, turns: int = 1) -> tuple[int, bytes]:
        """Return the events from a number on as one message for the browser, and the number of the one after them.

        Args:
            since: the number of the first event that the browser lacks.
            spread: holds what samples of many ranks wait for their turn; without it all go out.
            turns: how many turns have come since its last message. At the end of the run all ranks have theirs.
        """
        with self._lock:
            entries = self._history.entries(FIRST_TEXT if since == 0 else BATCH_TEXT, since)
            following = self._history.next
            means = self._figures.means() if self.is_over else None
        if since > 0 and spread is not None:
            entries = _spread(entries, spread, turns if means is None else SPREAD_OVER)
        hosts = _hosts(self._folder) if since == 0 else None
        return following, batch(since, following, self._single, entries, means, hosts)

    def _keep(self, events: list[Event | None], lines: list[bytes] | None = None) -> None:
        """Number events, and keep the useful ones; a line that was not read only counts."""
        newest: MetricsSample | None = None
        with self._lock:
            for at, event in enumerate(events):
                if event is None:
                    # Half a line, which a kill left, has no number.
                    self._history.next += lines is not None and lines[at].startswith(_UNREAD)
                elif isinstance(event, RichOutput | OutputCleared | RankWarm):
                    self._history.next += 1
                else:
                    self._history.add(event)
                    self._figures.handle(event)
                    newest = event if isinstance(event, MetricsSample) else newest
                    self.is_over |= isinstance(event, RunFinished)
        if newest is not None and newest.model not in (None, self._model):
            self._note_model(newest.model)

    def _note_model(self, model: str | None) -> None:
        self._model = model
        computes_on = read_record(self._folder).computes_on
        if model is not None and computes_on is not None:
            self._single = single_rank_samples_per_s(model, computes_on)

    def _goes_on(self) -> bool:
        now_s = time.monotonic()
        if self.is_ready and now_s - self._looked_s < _ALIVE_S:
            return True
        self._looked_s = now_s
        return read_record(self._folder).state in (RUNNING, UNKNOWN)


def _spread(entries: list[Entry], spread: Spread[Entry], turns: int) -> list[Entry]:
    """Return what goes to the browser now: samples before the others, among which may be a rank's end."""
    others = [one for one in entries if not (isinstance(one.event, MetricsSample) and spread.hold(one.event.rank, one))]
    return [*spread.take(turns), *others]


def _hosts(folder: Path) -> dict[str, list[int]]:
    """Return each host of a run's ranks, with these; nothing where its record does not say it."""
    try:
        content = untrusted_files.read_object(folder / "run.json").get("hosts")
    except (OSError, ValueError):
        return {}
    hosts: dict[str, list[int]] = {}
    for rank, host in content.items() if isinstance(content, dict) else ():
        if isinstance(host, str) and rank.isdecimal():
            hosts.setdefault(host, []).append(int(rank))
    return hosts
