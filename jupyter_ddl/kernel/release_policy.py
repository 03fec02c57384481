"""How long ranks that were released are waited for: only time in which they, and we, could run counts.

On a crowded machine a process that is ready to run may get no core for seconds, and so may this one. A rank that was
never given the time to answer is not stuck, and must not be ended for it.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Between two looks; of what is longer, only so much counts: we ourselves were stopped, and what came lies unread.
_LONGEST_TICK_S = 1.0
# Time without a core does not count up to here. What is starved for longer is told, and ended, all the same.
_STARVED_S = 60.0


class Patience:
    """Counts the time that a release has taken.

    Args:
        starves: returns whether ranks that are waited for are ready to run and get no core.
        now_s: when it begins.
    """

    def __init__(self, starves: Callable[[], bool], now_s: float) -> None:
        self._starves = starves
        self._last_s = now_s
        self._starved_s = 0.0
        self.used_s = 0.0

    def tick(self, now_s: float) -> None:
        """Count the time since the last call."""
        passed_s = min(now_s - self._last_s, _LONGEST_TICK_S)
        self._last_s = now_s
        if self._starved_s < _STARVED_S and self._starves():
            self._starved_s += passed_s
        else:
            self.used_s += passed_s

    def renew(self) -> None:
        """Begin anew: the ranks are at what nothing can interrupt."""
        self.used_s = 0.0
