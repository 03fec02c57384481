"""Measures a model's steps on tiny batches, and extrapolates to the batch that is asked for.

Runs on: every rank, or any process. Imports no framework.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# The least of these: a machine that others use adds time, and never takes it away.
_REPETITIONS = 7
_LARGEST = 8


@dataclass(frozen=True)
class Line:
    """A quantity of a step by its batch: fixed + each * samples."""

    fixed: float
    each: float

    def at(self, samples: float) -> float:
        """Return the quantity at a batch."""
        return self.fixed + self.each * samples

    @classmethod
    def through(cls, small: int, at_small: float, large: int, at_large: float) -> Line:
        """Return the line through two measurements, neither part of it below 0."""
        each = max(0.0, (at_large - at_small) / (large - small)) if large > small else at_small / max(1, small)
        return cls(max(0.0, at_small - each * small), each)


class Subject(Protocol):
    """A model whose steps are measured.

    Attributes:
        weights_bytes: all of the model's variables.
        gradients_bytes: one for each trained weight.
        optimizer_bytes: its state.
        hints: by the remedy, the code that says it, where no word of `--memory` does.
        shards_all: weights and gradients can be sharded as well as the optimizer's state.
        holds_weights: what `kept_bytes` counts has the weights in it.
        is_of_torch: its arrays are PyTorch's: on cores they are blocks of malloc's.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    holds_weights: bool
    is_of_torch: bool
    shards_all: bool
    hints: dict[str, str]

    def batch(self, samples: int) -> Any:
        """Return a batch of so many samples."""

    def kept_bytes(self, batch: Any) -> tuple[float, bool]:
        """Return what a step keeps for its backward pass, and whether all of it could be counted."""

    def seconds(self, batch: Any, repetitions: int) -> list[float]:
        """Return the times of some steps, forward and backward, without an update."""

    def changes(self) -> dict[str, AbstractContextManager[Any]]:
        """Return, by the word of `--memory`, contexts in which the model computes in another way."""


@dataclass(frozen=True)
class Steps:
    """What steps keep, in bytes, and whether all of it was counted."""

    kept: Line
    is_whole: bool


def kept_by(subject: Subject, samples: int) -> Steps:
    """Count what steps of two tiny batches keep; the larger has at most 8 samples."""
    small, large = _tiny(samples)
    kept, is_whole = {}, True
    for size in {small, large}:
        kept[size], whole = subject.kept_bytes(subject.batch(size))
        is_whole &= whole
    line = Line.through(small, kept[small], large, kept[large])
    return Steps(Line(0.0, line.each) if subject.holds_weights else line, is_whole)


def time_by(subject: Subject, samples: int) -> Line:
    """Measure the time of steps of two tiny batches, in seconds."""
    small, large = _tiny(samples)
    times = {size: min(subject.seconds(subject.batch(size), _REPETITIONS)) for size in {small, large}}
    return Line.through(small, times[small], large, times[large])


def time_of(subject: Subject, samples: int) -> float:
    """Measure the time of a step of the larger tiny batch, in seconds."""
    return min(subject.seconds(subject.batch(_tiny(samples)[1]), _REPETITIONS))


def _tiny(samples: int) -> tuple[int, int]:
    large = max(1, min(samples, _LARGEST))
    return max(1, large // 4), large
