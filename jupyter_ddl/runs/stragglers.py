"""Finds the rank that the others wait for.

In synchronous training all ranks take equally long for a step, since they wait for each other in the exchange of
gradients. So the time without the exchange is compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.protocol.events import StragglerMarked

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import MetricsSample

# A rank becomes a straggler above the first, and stops being one below the second: on a shared machine, times vary by
# a tenth.
RATIO = 1.2
RATIO_OFF = 1.1
# How long it must have been slow, in steps and in seconds: ten steps of a small model are one sample.
STEPS = 10
SECONDS = 5.0


@dataclass
class _Rank:
    """What is known of a rank's last steps.

    Attributes:
        own_s: the time of a step without the exchange.
        input_s: the part of it spent waiting for the batch.
        slow_steps: how many consecutive steps were slower than the others'.
        slow_s: how long these took.
        more_input_s: how much longer than the others it waited for input in these.
        more_compute_s: how much longer than the others it computed in these.
    """

    own_s: float = 0.0
    input_s: float = 0.0
    slow_steps: int = 0
    slow_s: float = 0.0
    more_input_s: float = 0.0
    more_compute_s: float = 0.0
    is_marked: bool = False

    @property
    def compute_s(self) -> float:
        """The part of a step without the exchange that is not spent waiting for the batch."""
        return self.own_s - self.input_s

    def forget_slow(self) -> None:
        """Begin to count slow steps again."""
        self.slow_steps, self.slow_s, self.more_input_s, self.more_compute_s = 0, 0.0, 0.0, 0.0


class Stragglers:
    """Takes the samples of one run's ranks and marks those that hold the others up.

    A rank is a straggler when its steps without the exchange have taken more than 1.2 times the ranks' median for 10
    steps and for 5 s, and until they take less than 1.1 times. The median is the lower one of two: with the mean of the
    two, a rank that takes 1.4 times the other's time would be none. So at most one of two ranks is a straggler.
    What it spends them on is said of all these steps: a single sample may hold one that compiles a function.
    """

    def __init__(self) -> None:
        self._ranks: dict[int, _Rank] = {}
        self._usual_s = self._usual_input_s = self._usual_compute_s = 0.0
        self._until_sorted = 0

    def handle(self, sample: MetricsSample) -> StragglerMarked | None:
        """Take a sample; return an event where a rank has become a straggler, or stopped being one."""
        if sample.step_s is None or sample.exchange_s is None or not sample.steps:
            return None
        own_s, input_s = sample.step_s - sample.exchange_s, sample.input_s or 0.0
        if not (math.isfinite(own_s) and math.isfinite(input_s)):
            return None
        rank = self._ranks.setdefault(sample.rank, _Rank())
        rank.own_s, rank.input_s = max(0.0, own_s), input_s
        self._update_medians()
        if len(self._ranks) < 2 or self._usual_s <= 0:
            return None
        ratio = rank.own_s / self._usual_s
        self._note(rank, ratio, sample.steps, sample.step_s)
        if rank.is_marked:
            return self._mark(sample, sample.rank, is_straggler=False) if ratio < RATIO_OFF else None
        if rank.slow_steps < STEPS or rank.slow_s < SECONDS:
            return None
        # A marked rank may have become the fast one without an event yet: it comes first.
        past = next(
            (key for key, one in self._ranks.items() if one.is_marked and one.own_s < RATIO_OFF * self._usual_s), None
        )
        if past is not None:
            return self._mark(sample, past, is_straggler=False)
        return self._mark(sample, sample.rank, is_straggler=True)

    def _note(self, rank: _Rank, ratio: float, steps: int, step_s: float) -> None:
        """Count a rank's slow steps. Those between the two bounds are neither slow nor fast."""
        if ratio > RATIO:
            rank.slow_steps += steps
            rank.slow_s += steps * step_s
            rank.more_input_s += steps * (rank.input_s - self._usual_input_s)
            rank.more_compute_s += steps * (rank.compute_s - self._usual_compute_s)
        elif ratio < RATIO_OFF and not rank.is_marked:
            rank.forget_slow()

    def _mark(self, sample: MetricsSample, number: int, *, is_straggler: bool) -> StragglerMarked:
        rank = self._ranks[number]
        spends_on: Literal["compute", "input"] = "input" if rank.more_input_s > rank.more_compute_s else "compute"
        rank.is_marked = is_straggler
        if not is_straggler:
            rank.forget_slow()
        ratio = round(rank.own_s / self._usual_s, 2)
        return StragglerMarked(sample.run, number, sample.at_s, is_straggler, ratio, spends_on)

    def _update_medians(self) -> None:
        """Sort the ranks' times, unless that was done less than a sixteenth of their samples ago.

        Sorting a thousand ranks at each of their samples would cost a kernel a tenth of its core.
        """
        self._until_sorted -= 1
        if self._until_sorted >= 0:
            return
        ranks = self._ranks.values()
        self._usual_s = median_low(rank.own_s for rank in ranks)
        self._usual_input_s = median_low(rank.input_s for rank in ranks)
        self._usual_compute_s = median_low(rank.compute_s for rank in ranks)
        self._until_sorted = len(self._ranks) // 16
