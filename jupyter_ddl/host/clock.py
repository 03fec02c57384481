"""Defines the clock of a run: the machine's own, or one that a test advances."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from queue import Empty
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable

T = TypeVar("T")


class Clock(Protocol):
    """What the code that follows a run needs of a clock."""

    def now_s(self) -> float:
        """Return the time since a fixed moment, in seconds; it never decreases."""

    def next_of(self, events: queue.Queue[T], timeout_s: float) -> T | None:
        """Return a queue's next event; None where none comes within `timeout_s`."""


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_s(self) -> float:
        """Return seconds by the monotonic clock."""
        return time.monotonic()

    def next_of(self, events: queue.Queue[T], timeout_s: float) -> T | None:
        """Wait in C, with the GIL released."""
        try:
            return events.get(timeout=timeout_s)
        except Empty:
            return None


MONOTONIC = MonotonicClock()


class SimulatedClock:
    """A clock that advances only while a thread waits for it, and then at once. For one thread.

    Scheduled calls are made in the thread that waits, by their time; those of the same time in the order in which they
    were scheduled.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._count = itertools.count()
        self._due: list[tuple[float, int, Callable[[], object]]] = []

    def now_s(self) -> float:
        """Return the simulated time, in seconds."""
        return self._now_s

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Schedule a call after some seconds; none where they are infinite."""
        if math.isfinite(seconds):
            heapq.heappush(self._due, (self._now_s + seconds, next(self._count), do))

    def advance(self, seconds: float) -> None:
        """Advance by some seconds, and make the calls that are due by then."""
        self._advance(self._now_s + seconds, lambda: True)

    def next_of(self, events: queue.Queue[T], timeout_s: float) -> T | None:
        """Advance until there is an event, or the time is up."""
        self._advance(self._now_s + timeout_s, events.empty)
        return None if events.empty() else events.get_nowait()

    def _advance(self, until_s: float, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            if not self._due or self._due[0][0] > until_s:
                self._now_s = until_s
                return
            self._now_s, _, do = heapq.heappop(self._due)
            do()
