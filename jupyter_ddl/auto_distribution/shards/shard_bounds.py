"""Divides a batch among the ranks, in their order: all have equally many samples, or one more.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """One of several parts.

    Attributes:
        size: how many parts there are.
        rank: which this is, from 0. The first parts are the larger ones, so part 0 is empty only where all are.
    """

    size: int
    rank: int

    def bounds(self, count: int) -> tuple[int, int]:
        """Return where this part of `count` samples begins, and where it ends."""
        each, more = divmod(count, self.size)
        start = self.rank * each + min(self.rank, more)
        return start, start + each + (self.rank < more)

    def length(self, count: int) -> int:
        """Return how many of `count` samples this part has."""
        start, stop = self.bounds(count)
        return stop - start
