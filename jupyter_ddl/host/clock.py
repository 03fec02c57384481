"""The clock by which a run is followed: the machine's own, or one that a test advances."""

from __future__ import annotations

import queue
import time
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """What whoever follows a run needs of time."""

    def now_s(self) -> float:
        """Return the time since any moment, in seconds; it never goes back."""

    def next_of(self, events: queue.Queue[T], timeout_s: float) -> T | None:
        """Return the next of a queue's events, or None where none comes within a time."""


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_s(self) -> float:
        """Return seconds by the monotonic clock."""
        return time.monotonic()

    def next_of(self, events: queue.Queue[T], timeout_s: float) -> T | None:
        """Wait in C, with the GIL free."""
        try:
            return events.get(timeout=timeout_s)
        except queue.Empty:
            return None


MONOTONIC = MonotonicClock()
