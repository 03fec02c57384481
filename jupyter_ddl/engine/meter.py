"""Collects what the training on this rank reports, for the sampler to send.

The training layer, which this one does not know, attaches a source while it trains; a loop of the user's own reports
with `jupyter_ddl.report`.

Runs on: every rank.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from itertools import pairwise
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_ddl.engine.epochs import Epochs
from jupyter_ddl.engine.parameters import Parameters
from jupyter_ddl.engine.step_times import StepTimes
from jupyter_ddl.protocol.readings import TrainingReading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROUNDING = 1e-6


class Source(Protocol):
    """Something that trains."""

    def read(self) -> TrainingReading | None:
        """Return what came since the last call, or None. Called in the sampler's thread."""


class Reports:
    """What a loop of the user's own has reported, as a source.

    Args:
        step_times: where its steps are noted.
    """

    def __init__(self, step_times: StepTimes) -> None:
        self._step_times = step_times
        # By the clock of the host, which other ranks' times are compared with.
        self._last_s: float | None = None
        self._lock = threading.Lock()
        self._reported_s: list[float] = []
        self._samples: float | None = None
        self._step = 0
        self._loss: float | None = None
        self._metrics: dict[str, float] = {}

    def add(self, samples: float | None, loss: float | None, metrics: dict[str, float]) -> None:
        """Note one step."""
        now_s = time.time()
        if self._last_s is not None:
            self._step_times.ended(self._last_s, now_s)
        self._last_s = now_s
        with self._lock:
            if self._reported_s:
                # The first report only marks a start: how long its step took is not known.
                if samples is not None:
                    self._samples = samples + (self._samples or 0.0)
                self._step += 1
            self._reported_s.append(time.perf_counter())
            self._loss = loss if loss is not None else self._loss
            self._metrics |= metrics

    def said(self) -> tuple[float | None, dict[str, float]]:
        """Return the loss and the metrics that were reported last; neither where none was."""
        with self._lock:
            return self._loss, dict(self._metrics)

    def read(self) -> TrainingReading | None:
        """Return what came since the last call, or None."""
        with self._lock:
            times, samples = self._reported_s, self._samples
            if len(times) < 2:
                return None
            self._reported_s, self._samples = times[-1:], None
            durations_s = [after - before for before, after in pairwise(times)]
            return TrainingReading(
                step=self._step, loss=self._loss, metrics=dict(self._metrics), **step_times(durations_s, samples)
            )


def step_times(durations_s: Sequence[float], samples: float | None) -> dict[str, Any]:
    """Return the fields of a TrainingReading that follow from how long steps took.

    Args:
        durations_s: of each step: at least one.
        samples: of all these steps; None where that is not known.
    """
    whole_s = sum(durations_s)
    # quantiles(n=20) has the median and the 95th percentile among its cuts; one duration is both.
    cuts = quantiles(durations_s, n=20, method="inclusive") if len(durations_s) > 1 else list(durations_s) * 19
    return {
        "steps": len(durations_s),
        "samples_per_s": samples / whole_s if samples is not None and whole_s > 0 else None,
        "step_s": whole_s / len(durations_s),
        "step_p50_s": cuts[9],
        "step_p95_s": cuts[18],
    }


def largest_batch(steps: int, samples: float, squares: float) -> int:
    """Return how many samples the largest of some batches has at least, from their number and two sums.

    It is exact where all batches are alike, and where all but one smaller are, as the last one of an epoch is; of other
    batches it is a bound that is never too large.

    Args:
        steps: how many batches: at least one.
        samples: of all of them.
        squares: the sum of the squares of the samples of each.

    Source: P. A. Samuelson, "How deviant can you be?", Journal of the American Statistical Association 63 (1968): of n
        numbers the largest exceeds the mean by the standard deviation over the root of n - 1 at least.

    Example:
        >>> largest_batch(32, 31 * 32 + 8, 31 * 32**2 + 8**2)
        32
    """
    # Whole numbers, of which the difference is exact.
    count = int(samples)
    spread = max(0, steps * int(squares) - count * count)
    most = (count + math.sqrt(spread / max(1, steps - 1))) / steps
    return math.ceil(most - _ROUNDING)


class Meter:
    """What the training on this rank did since it was last asked.

    Attributes:
        parameters: what it was given.
        epochs: what its epochs came to.
        step_times: when each of its steps began and ended.
        fit_steps: how many the cell's calls of `fit` have taken together: those of the next one count on from there.
    """

    def __init__(self) -> None:
        self.parameters = Parameters()
        self.epochs = Epochs()
        self.step_times = StepTimes()
        self.begin()

    def begin(self) -> None:
        """Forget what the cell before reported."""
        self.reports = Reports(self.step_times)
        self.fit_steps = 0
        self._source: Source | None = None
        self._last: TrainingReading | None = None

    def attach(self, source: Source) -> None:
        """Attach a source, which `read` asks from here on."""
        self._source = source

    def detach(self, source: Source) -> None:
        """Detach a source; what it has not reported yet is kept for the next `read`."""
        if self._source is source:
            self._last = source.read() or self._last
            self._source = None

    def read(self) -> TrainingReading | None:
        """Return what the training did since the last call; None where there was none."""
        last, self._last = self._last, None
        reading = self._source.read() if self._source is not None else None
        return reading or last or self.reports.read()


def number_of(value: Any) -> float:
    """Return the number that a value is, be it Python's, NumPy's, Keras's, TensorFlow's or PyTorch's.

    A whole number beyond the range of a float is the infinity of its sign.

    Raises:
        TypeError, ValueError: it is no number, or more than one.
    """
    if type(value) is float:
        return value
    for name in ("numpy", "item"):
        # A tensor's array, and an array's one value. PyTorch's tensors have both, and `numpy` refuses gradients.
        take = getattr(value, name, None)
        if callable(take) and not (name == "numpy" and hasattr(value, "item")):
            value = take()
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def numbers_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among what a library logs, NaN and the infinities too; what is none is left out."""
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if not isinstance(value, str | bytes | bool):
            with suppress(TypeError, ValueError, AttributeError, RuntimeError, NotImplementedError):
                numbers[str(name)] = number_of(value)
    return numbers
