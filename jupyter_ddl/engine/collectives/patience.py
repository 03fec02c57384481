"""Waits for ranks that have not come to where all must: reports them as a stall, and ends where the rank is released.

Runs on: every rank.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.events import CollectiveStalled
from jupyter_ddl.protocol.rank_sets import named

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from jupyter_ddl.engine.collectives.library import Turn

_LOOK_S = 0.01


class Patience:
    """One wait of one rank; each call of it waits a moment, in Python, where an interrupt ends it.

    Args:
        place: what the ranks are to call, for people.
        turn: the cell's.
        rank: the one that waits.
        timeout_s: for how long at most.
        released: set when the rank is released.
    """

    def __init__(self, place: str, turn: Turn, rank: int, timeout_s: float, released: threading.Event) -> None:
        self._place = place
        self._turn = turn
        self._rank = rank
        self._timeout_s = timeout_s
        self._released = released
        self._began_s = self._told_s = time.monotonic()

    def __call__(self, missing: Sequence[int]) -> None:
        """Wait a moment.

        Args:
            missing: the ranks that are waited for; none where another rank knows them.

        Raises:
            RuntimeError: the rank was released, or has waited for its timeout.
        """
        whom = f"{named(missing)}, which did not call it" if missing else "the other ranks"
        why = f"{self._place}() waits for {whom}"
        if self._released.wait(_LOOK_S):
            raise RuntimeError(f"The cell was released while {why}.")
        now_s = time.monotonic()
        if now_s - self._began_s > self._timeout_s:
            raise RuntimeError(f"Timed out: {why}.")
        after_s, report = self._turn.stall_after_s, self._turn.report
        if not missing or after_s is None or report is None:
            return
        # Between half of `after_s` and all of it, as for any stall.
        waited_s = now_s - self._began_s
        if waited_s >= after_s / 2 and now_s - self._told_s >= after_s / 4:
            self._told_s = now_s
            names = {str(rank): [self._place] for rank in missing}
            report(
                CollectiveStalled(self._turn.run, self._rank, time.time(), round(waited_s, 1), (self._place,), names)
            )
