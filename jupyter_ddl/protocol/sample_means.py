"""Computes the means of a rank's samples: of its whole training, and of its last ten seconds.

The list of runs, the dashboard, the table in a terminal and the saved picture all read these. The browser computes them
too (labextension/src/model/means.ts); both are tested on labextension/schema/figures.fixture.json.

Runs on: kernel, Jupyter server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_ddl.protocol.events import MetricsSample

# A second is long enough for a rate, and short enough for the current one; the mean of ten does not jump.
WINDOW_S = 10
# A larger number is no time.
FAR = 1e30


@dataclass(frozen=True)
class Mean:
    """The mean of some of a rank's steps; None for what was not measured.

    Attributes:
        samples_per_s: of this rank: the samples over the time that their steps took.
        step_s: a step.
        exchange_s: of a step, over the steps of which it was measured.
        input_s: likewise.
        loss: the last one, which is no mean: of a run the newest is of interest.
    """

    samples_per_s: float | None = None
    step_s: float | None = None
    exchange_s: float | None = None
    input_s: float | None = None
    loss: float | None = None


@dataclass
class _Sums:
    """Sums over steps; of samples, exchange and input over the steps of which these were measured."""

    steps: float = 0.0
    seconds: float = 0.0
    samples: float = 0.0
    counted_s: float = 0.0
    exchange_s: float = 0.0
    exchange_steps: float = 0.0
    input_s: float = 0.0
    input_steps: float = 0.0

    def take(self, sample: MetricsSample) -> None:
        """Add the steps of a sample that has their time."""
        assert sample.step_s is not None
        # A sample without a number of steps is of one.
        steps = sample.steps or 1
        seconds = sample.step_s * steps
        self.steps += steps
        self.seconds += seconds
        if sample.samples_per_s is not None:
            self.samples += sample.samples_per_s * seconds
            self.counted_s += seconds
        if sample.exchange_s is not None:
            self.exchange_s += sample.exchange_s * steps
            self.exchange_steps += steps
        if sample.input_s is not None:
            self.input_s += sample.input_s * steps
            self.input_steps += steps

    def add(self, other: _Sums) -> None:
        """Add other sums."""
        self.steps += other.steps
        self.seconds += other.seconds
        self.samples += other.samples
        self.counted_s += other.counted_s
        self.exchange_s += other.exchange_s
        self.exchange_steps += other.exchange_steps
        self.input_s += other.input_s
        self.input_steps += other.input_steps

    def mean(self, loss: float | None) -> Mean:
        """Return the means."""
        return Mean(
            samples_per_s=_over(self.samples, self.counted_s),
            step_s=_over(self.seconds, self.steps),
            exchange_s=_over(self.exchange_s, self.exchange_steps),
            input_s=_over(self.input_s, self.input_steps),
            loss=loss,
        )


class SampleMeans:
    """Takes the samples of one rank and keeps sums: bounded memory, however long the run."""

    def __init__(self) -> None:
        self._all = _Sums()
        # Of each second in which steps were measured, the newest WINDOW_S of them.
        self._seconds: dict[int, _Sums] = {}
        self._newest_second = 0
        self._loss: float | None = None

    def take(self, sample: MetricsSample) -> None:
        """Take a sample."""
        self._loss = self._loss if sample.loss is None else sample.loss
        if sample.step_s is None:
            return
        self._all.take(sample)
        # A sample without a valid time counts in the newest second.
        second = math.floor(sample.at_s) if abs(sample.at_s) < FAR else self._newest_second
        self._newest_second = max(self._newest_second, second)
        oldest = self._newest_second - WINDOW_S
        self._seconds = {key: sums for key, sums in self._seconds.items() if key > oldest}
        if second > oldest:
            self._seconds.setdefault(second, _Sums()).take(sample)

    def whole(self) -> Mean:
        """Return the mean of all steps."""
        return self._all.mean(self._loss)

    def recent(self) -> Mean:
        """Return the mean of the steps of the last ten seconds in which there were some."""
        total = _Sums()
        for second in sorted(self._seconds):
            total.add(self._seconds[second])
        return total.mean(self._loss)


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values, e.g. of the ranks' rates; None where there is none."""
    found = [value for value in values if value is not None]
    return sum(found) if found else None


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values, e.g. of the ranks' losses; None where there is none."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _over(part: float, whole: float) -> float | None:
    """Return a quotient; None where nothing was measured. NaN counts as measured."""
    return part / whole if whole else None
