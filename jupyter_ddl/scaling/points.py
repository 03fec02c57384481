"""What was measured of one side at one number of ranks: medians and their spread, from several runs in turns.

Runs on: a terminal.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OURS = "horovod"
# Losses of single steps jump; a mean of so many is compared with the one that is to be reached.
SMOOTHED_STEPS = 5


@dataclass(frozen=True)
class Figure:
    """A median with the smallest and the largest value."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """Return the figure of at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def over(self, divisor: float) -> Figure:
        """Return the figure divided by a positive number."""
        return Figure(self.median / divisor, self.low / divisor, self.high / divisor)


@dataclass(frozen=True)
class Point:
    """One side at one number of ranks.

    Attributes:
        side: "horovod", or a strategy's name.
        ranks: or replicas.
        batch_size: of each of them.
        runs: what each run found, as `scaling_program.training.Measured` has it.
    """

    side: str
    ranks: int
    batch_size: int
    runs: tuple[Mapping[str, Any], ...]

    @property
    def step_s(self) -> Figure:
        """Seconds of a step: the median of each run."""
        return Figure.of([statistics.median(run["step_s"]) for run in self.runs])

    @property
    def images_per_s(self) -> Figure:
        """Samples of all ranks together in a second."""
        samples = self.ranks * self.batch_size
        return Figure.of([samples / statistics.median(run["step_s"]) for run in self.runs])

    @property
    def compute_s(self) -> float | None:
        """Seconds of a step without exchange, while all ranks take one; None where it was not measured."""
        medians = [statistics.median(run["compute_s"]) for run in self.runs if run["compute_s"]]
        return statistics.median(medians) if medians else None

    def final_loss(self) -> float:
        """Return the lowest smoothed loss that every run has reached."""
        return max(min(smoothed(run["losses"])) for run in self.runs)

    def seconds_to(self, loss: float) -> Figure | None:
        """Return the seconds of training until the smoothed loss is as low; None where a run has not reached it."""
        reached = [seconds_to(loss, run["losses"], run["elapsed_s"]) for run in self.runs]
        times = [value for value in reached if value is not None]
        return Figure.of(times) if len(times) == len(reached) else None


def smoothed(losses: Sequence[float]) -> list[float]:
    """Return the running means of losses, as many as there are steps; the first ones are of fewer steps."""
    return [statistics.fmean(losses[max(0, end - SMOOTHED_STEPS) : end]) for end in range(1, len(losses) + 1)]


def seconds_to(loss: float, losses: Sequence[float], elapsed_s: Sequence[float]) -> float | None:
    """Return when the smoothed loss was first as low as `loss`; None where it never was."""
    for value, after_s in zip(smoothed(losses), elapsed_s, strict=True):
        if value <= loss:
            return after_s
    return None


def efficiency(point: Point, base: Point) -> Figure:
    """Return images/s of a rank over those of a rank of the smallest number, 1 where nothing is lost."""
    each = base.images_per_s.median / base.ranks
    return point.images_per_s.over(point.ranks * each)
