"""Writes a run's events into its folder as they come: `events.jsonl` merges the ranks' with the session's own.

A kernel that attaches to ranks whose kernel was killed continues such a file at its end: the events that the ranks sent
meanwhile are in their own files.

Runs on: kernel.
"""

from __future__ import annotations

import os
import threading
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.files import append, open_to_append
from jupyter_ddl.host.untrusted_files import is_file
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.events import RunFinished
from jupyter_ddl.protocol.rank_files import EVENTS, rank_file
from jupyter_ddl.runs.reading import read_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.runs.folder import RunFolder


class Recorder:
    """Records one run. Safe to call from any thread; `handle` waits only for the disk."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._path = folder.path / "events.jsonl"
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._numbers: dict[int, int] = {}
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """Why the record is incomplete; None while it is complete."""
        return self._problem or self._folder.problem

    def handle(self, event: Event) -> bool:
        """Record an event; return False for one that is recorded already."""
        with self._lock:
            return self._take(event)

    def catch_up(self, ranks: Iterable[int], on_our_clock: Callable[[Event], Event]) -> list[Event]:
        """Record the events of the ranks' files that `events.jsonl` lacks; return all of the run's events, in order.

        Call it when new events already arrive: none is missed between the two, and none is recorded twice.

        Args:
            ranks: those of the run.
            on_our_clock: gives an event of a rank's file, which has the time of the rank's host, the time of this one.
        """
        with self._lock:
            known = list(read_events(self._path))
            for event in known:
                self._is_new(event)
            self._end_half_line()
            files = (self._path.with_name(rank_file(rank, EVENTS)) for rank in ranks)
            own = (_timed(map(on_our_clock, read_events(file))) for file in files)
            return known + [event for _, event in merge(*own, key=itemgetter(0)) if self._take(event)]

    def _take(self, event: Event) -> bool:
        if not self._is_new(event):
            return False
        if self.problem is None:
            try:
                if self._descriptor is None:
                    self._descriptor = open_to_append(self._path)
                append(self._descriptor, as_line(event))
            except (OSError, ValueError, TypeError, RecursionError) as error:
                # The disk's error, or that of an event that JSON cannot hold.
                self._problem = f"{self._path}: {getattr(error, 'strerror', None) or error}"
        if self._descriptor is not None and (self._problem or isinstance(event, RunFinished)):
            os.close(self._descriptor)
            self._descriptor = None
        return True

    def _is_new(self, event: Event) -> bool:
        """Return whether an event has not been taken before, and note that it has now."""
        numbered: Any = event
        number: int = getattr(event, "n", 0)
        if number:
            if number <= self._numbers.get(numbered.rank, 0):
                return False
            self._numbers[numbered.rank] = number
        return True

    def _end_half_line(self) -> None:
        """End the line at which the last kernel was killed, so that the next one is whole."""
        if not is_file(self._path):
            # There is none yet, or `_take` reports what is in its place.
            return
        try:
            with self._path.open("r+b") as file:
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        file.write(b"\n")
        except OSError:
            # It cannot be written: `_take` reports it.
            return


def _timed(events: Iterable[Event]) -> Iterator[tuple[float, Event]]:
    """Yield a rank's events with the time of each: its own, or that of the last one before it that has one."""
    at_s = 0.0
    for event in events:
        at_s = getattr(event, "at_s", at_s)
        yield at_s, event
