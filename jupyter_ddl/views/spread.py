"""Spreads the samples of many ranks over a live view's updates, which each would cost too much with all of them.

From `SPREAD_FROM` ranks on an update has the newest samples of a sixth of the ranks, or of a third once a second:
each rank's sample comes every three seconds, and the browser assumes that one holds for five.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

SPREAD_FROM = 257
SPREAD_OVER = 6


class Spread(Generic[T]):
    """The newest sample of each rank, until its turn comes. T is what stands for a sample."""

    def __init__(self) -> None:
        self._ranks: set[int] = set()
        self._newest: dict[int, T] = {}
        self._turn = 0

    @property
    def is_spread(self) -> bool:
        """Whether the ranks take turns: `SPREAD_FROM` of them or more have sent samples."""
        return len(self._ranks) >= SPREAD_FROM

    def hold(self, rank: int, sample: T) -> bool:
        """Keep a sample in place of the rank's last one; return False, of few ranks, where it is to be sent at once."""
        self._ranks.add(rank)
        if not self.is_spread:
            return False
        self._newest[rank] = sample
        return True

    def take(self, turns: int = 1) -> list[T]:
        """Return the samples of the ranks whose turn it is.

        Args:
            turns: how many updates' time has passed; `SPREAD_OVER` or more: of all ranks.
        """
        due = {(self._turn + turn) % SPREAD_OVER for turn in range(max(1, min(turns, SPREAD_OVER)))}
        self._turn += len(due)
        ranks = [rank for rank in self._newest if rank % SPREAD_OVER in due]
        return [self._newest.pop(rank) for rank in ranks]
