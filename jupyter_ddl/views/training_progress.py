"""Computes how far a training is and how long it still takes: "epoch 37 of 400, 6 min left".

The browser has the same (labextension/src/model/training_progress.ts); both are tested on
labextension/schema/progress.fixture.json.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.number_texts import time_left
from jupyter_ddl.protocol.sample_means import FAR

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import EpochEnded, MetricsSample

# How many of the newest epochs' times count, of which the median is taken.
_EPOCHS = 8
# For how long steps must have been seen before they tell how long an epoch takes.
_LEAST_S = 5.0


class TrainingProgress:
    """The progress of a run's current `fit`, by the lowest rank that reports any.

    How long an epoch takes is the median of the newest ones, from the end of one to the end of the next: the first one,
    in which TensorFlow traces, is not among them, and validation is. Before there are two ends it is by the steps since
    the first sample, which comes once the first steps are done. That a training ends early is not foreseen.
    """

    def __init__(self) -> None:
        self._rank: int | None = None
        self._epochs: int | None = None
        self._begin()

    def _begin(self) -> None:
        """Forget the `fit` before."""
        self._epoch = 0
        self._is_over = False
        self._ends: deque[tuple[int, float]] = deque(maxlen=_EPOCHS + 1)
        # Times with the epochs that were done by then: of the first sample with a part of an epoch, and of the newest.
        self._first: tuple[float, float] | None = None
        self._newest: tuple[float, float] | None = None
        self._now_s: float | None = None

    def sample(self, sample: MetricsSample) -> None:
        """Take a sample of any rank."""
        rank, epochs, epoch = sample.rank, sample.epochs, sample.epoch
        if not abs(sample.at_s) < FAR:
            return
        if epochs is None or epoch is None:
            if rank == self._rank:
                self._now_s = sample.at_s
            return
        if self._rank is not None and (rank > self._rank or self._is_rest(epoch, sample.epoch_part)):
            return
        if rank != self._rank or epochs != self._epochs or epoch < self._epoch or self._is_over:
            self._begin()
        self._rank, self._epochs, self._epoch, self._now_s = rank, epochs, epoch, sample.at_s
        if sample.epoch_part is not None:
            self._newest = sample.at_s, epoch + sample.epoch_part
            self._first = self._first or self._newest

    def _is_rest(self, epoch: int, part: float | None) -> bool:
        """Whether a sample is of the last steps of a `fit` that is over: its end may be reported before."""
        return self._is_over and bool(self._ends) and epoch == self._ends[-1][0] and (part is None or part >= 1)

    def ended(self, event: EpochEnded) -> None:
        """Take the end of an epoch."""
        if event.rank != self._rank or not abs(event.at_s) < FAR:
            return
        if self._ends and event.epoch <= self._ends[-1][0]:
            self._ends.clear()
        self._ends.append((event.epoch, event.at_s))
        self._is_over = event.is_last

    def end(self) -> None:
        """Take the end of the run."""
        self._is_over = True

    @property
    def epoch(self) -> int | None:
        """The current epoch, or the last one of a training that is over, from 1; None where not known."""
        if self._epochs is None:
            return None
        ended = self._ends[-1][0] + 1 if self._ends else 0
        return max(self._epoch + 1, ended if self._is_over else min(ended + 1, self._epochs))

    @property
    def epochs(self) -> int | None:
        """How many there are to be."""
        return self._epochs

    @property
    def left_s(self) -> float | None:
        """How long the rest of them takes; None where that is not known, and of a training that is over."""
        if self._epochs is None or self._now_s is None or self._is_over:
            return None
        ends = pairwise(self._ends)
        times_s = [(after_s - before_s) / (after - before) for (before, before_s), (after, after_s) in ends]
        if times_s:
            epoch_s = median(times_s)
            last, last_s = self._ends[-1]
            since_s = min(max(0.0, self._now_s - last_s), epoch_s)
            return max(0.0, epoch_s * (self._epochs - last - 1) - since_s)
        if self._first is None or self._newest is None:
            return None
        (first_s, before), (newest_s, done) = self._first, self._newest
        if newest_s - first_s < _LEAST_S or done <= before:
            return None
        return max(0.0, (self._epochs - done) * (newest_s - first_s) / (done - before) - (self._now_s - newest_s))

    @property
    def text(self) -> str:
        """Both, in words; empty where nothing is known."""
        if self.epoch is None:
            return ""
        left_s = self.left_s
        left = "" if left_s is None else f", {time_left(left_s)} left"
        return f"epoch {self.epoch:,} of {self._epochs:,}{left}"
