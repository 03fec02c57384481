"""Predicts steps from measured points, says how far off that is where it was measured, and up to 1,024 ranks.

Runs on: a terminal.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.scaling.points import OURS
from jupyter_ddl.scaling.step_model import ALGORITHMS, Network, StepTime, fitted, predicted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.scaling.points import Point

LARGEST = 1024


@dataclass(frozen=True)
class Predicted:
    """A step on so many ranks.

    Attributes:
        ranks: or replicas.
        batch_size: of each.
        time: of the step.
        measured_s: the median of what was measured; None where nothing was.
    """

    ranks: int
    batch_size: int
    time: StepTime
    measured_s: float | None

    @property
    def error(self) -> float | None:
        """How far the prediction is above the measured time, as a part of it."""
        return None if self.measured_s is None else self.time.step_s / self.measured_s - 1


@dataclass(frozen=True)
class Prediction:
    """All of it by one algorithm."""

    network: Network
    fitted_on: int
    steps: tuple[Predicted, ...]


def predict(points: Sequence[Point], cores: int) -> list[Prediction]:
    """Return the prediction by each algorithm; none where nothing was measured on two ranks or more.

    Compute is what was measured at the same number of ranks; beyond them, what was measured at the largest one that
    has a core for each rank, at the batch of a rank (strong scaling: on the line through the measured batches).

    Args:
        points: of Horovod, and others, which are left out.
        cores: that the ranks share.
    """
    ours = {point.ranks: point for point in points if point.side == OURS}
    with_exchange = [n for n in ours if n > 1 and ours[n].runs[0]["exchange_s"]]
    if not with_exchange:
        return []
    # Where several ranks share a core, what an exchange takes is the scheduler's doing, and no network's.
    fit_on = max([n for n in with_exchange if n <= cores] or [min(with_exchange)])
    exchanges = _exchanges(ours[fit_on])
    latency_s = statistics.median(run["latency_s"] for run in ours[fit_on].runs)
    return [
        Prediction(network, fit_on, tuple(_steps(ours, fit_on, network)))
        for network in (fitted(algorithm, fit_on, latency_s, exchanges) for algorithm in ALGORITHMS)
    ]


def _exchanges(point: Point) -> list[tuple[int, float]]:
    sizes: dict[int, list[float]] = {}
    for run in point.runs:
        for size_bytes, seconds in run["exchange_s"]:
            sizes.setdefault(size_bytes, []).append(seconds)
    return [(size_bytes, statistics.median(times)) for size_bytes, times in sorted(sizes.items())]


def _nearest(exchanges: list[tuple[int, float]], size_bytes: int) -> float:
    """Return the seconds of the measured size that is nearest to one."""
    return min(exchanges, key=lambda exchange: abs(exchange[0] - size_bytes))[1]


def _steps(ours: dict[int, Point], fit_on: int, network: Network) -> Iterator[Predicted]:
    base = ours[fit_on]
    gradient_bytes = 4 * base.runs[0]["parameters"]
    strong = len({point.batch_size for point in ours.values()}) > 1
    samples = base.ranks * base.batch_size
    beyond = [2**power for power in range(LARGEST.bit_length()) if 2**power > max(ours)]
    for n in [*sorted(ours), *beyond]:
        point = ours.get(n)
        batch_size = point.batch_size if point else (samples // n if strong else base.batch_size)
        if batch_size < 1:
            return
        compute_s = _compute_of(point or base)
        if point is None and strong:
            compute_s = _scaled(compute_s, _compute_at(batch_size, list(ours.values())))
        if n == 1:
            # Horovod has its cycle on one rank too, and copies: what it takes there is no network's.
            time = StepTime(statistics.median(compute_s), 0.0, _nearest(_exchanges(ours[1]), gradient_bytes))
        else:
            time = predicted(n, compute_s, gradient_bytes, network)
        yield Predicted(n, batch_size, time, point.step_s.median if point else None)


def _compute_of(point: Point) -> list[float]:
    return [seconds for run in point.runs for seconds in run["compute_s"]]


def _scaled(times: list[float], median: float) -> list[float]:
    factor = median / statistics.median(times)
    return [seconds * factor for seconds in times]


def _compute_at(batch_size: int, points: Sequence[Point]) -> float:
    """Return the seconds of a step's compute at a batch size, on the line through those of two measured ones."""
    known: dict[int, Any] = {point.batch_size: point.compute_s for point in points if point.compute_s is not None}
    small, large = min(known), max(known)
    slope = (known[large] - known[small]) / (large - small) if large > small else 0.0
    return float(max(known[small] + slope * (batch_size - small), known[small] * 0.1))
