"""Finds the rank that the others wait for.

In synchronous training all ranks take as long for a step, since they meet in the exchange of gradients. What differs is
the time without it, and that is what is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.events import StragglerMarked

if TYPE_CHECKING:
    from jupyter_ddl.events import MetricsSample

RATIO = 1.2
STEPS = 10


@dataclass
class _Rank:
    """What is known of a rank's last steps.

    Attributes:
        own_s: a step of it, without the exchange.
        input_s: of that, waiting for the batch.
        slow_steps: for how many steps it has been slower than the others.
    """

    own_s: float = 0.0
    input_s: float = 0.0
    slow_steps: int = 0
    is_marked: bool = False


class Stragglers:
    """Takes the samples of one run's ranks and marks those that hold the others up.

    A rank is a straggler when its steps without the exchange have taken more than 1.2 times the ranks' median for 10
    steps, and until they take less. The median is the lower one of two: with the mean of the two, a rank that takes 1.4
    times the other's time would be none.
    """

    def __init__(self) -> None:
        self._ranks: dict[int, _Rank] = {}
        self._usual_s = 0.0
        self._until_sorted = 0

    def handle(self, sample: MetricsSample) -> StragglerMarked | None:
        """Take a sample; return an event where the rank has become a straggler, or is one no more."""
        if sample.step_s is None or sample.exchange_s is None or not sample.steps:
            return None
        rank = self._ranks.setdefault(sample.rank, _Rank())
        rank.own_s = max(0.0, sample.step_s - sample.exchange_s)
        rank.input_s = sample.input_s or 0.0
        usual_s = self._median_s()
        if len(self._ranks) < 2 or usual_s <= 0:
            return None
        ratio = rank.own_s / usual_s
        rank.slow_steps = rank.slow_steps + sample.steps if ratio > RATIO else 0
        is_straggler = rank.slow_steps >= STEPS
        if is_straggler == rank.is_marked:
            return None
        rank.is_marked = is_straggler
        return StragglerMarked(
            sample.run, sample.rank, sample.at_s, is_straggler, round(ratio, 2), self._spends_on(rank)
        )

    def _median_s(self) -> float:
        """Return the median of the ranks' own times, as it was at most a sixteenth of their samples ago.

        Sorting a thousand ranks at each of their samples would cost a kernel a tenth of its core.
        """
        self._until_sorted -= 1
        if self._until_sorted < 0:
            self._usual_s = median_low(rank.own_s for rank in self._ranks.values())
            self._until_sorted = len(self._ranks) // 16
        return self._usual_s

    def _spends_on(self, rank: _Rank) -> Literal["compute", "input"]:
        """Return what takes the rank longer than the others: what exceeds the median more."""
        usual_input_s = median_low(other.input_s for other in self._ranks.values())
        usual_compute_s = median_low(other.own_s - other.input_s for other in self._ranks.values())
        more_input_s = rank.input_s - usual_input_s
        more_compute_s = rank.own_s - rank.input_s - usual_compute_s
        return "input" if more_input_s > more_compute_s else "compute"
