"""Counts a loop's steps: which batches belong to one, how long it took, and how much of that was waiting for batches.

A step ends with the optimizer's step. Its samples are those of all batches that came since the one before. Batches that
are read without gradients, or to a DataLoader's end with no backward pass, are an evaluation's: they are no samples of
a step, and the time that they take is in none.

Runs on: every rank, in the thread that trains; `taken` is called in the sampler's. Imports no torch.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Waited:
    """What a step waited for other ranks.

    Attributes:
        seconds: by the clock.
        events: pairs of a GPU's events, between which it waited, and which may not have happened yet.
    """

    # One is made in each step: a dataclass takes twice as long to make.
    __slots__ = ("events", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.events: list[tuple[Any, Any]] = []

    def take(self) -> float:
        """Return the seconds that are known now and were not returned before."""
        known_s, self.seconds = self.seconds, 0.0
        while self.events and self.events[0][1].query():
            began, ended = self.events.pop(0)
            known_s += began.elapsed_time(ended) / 1000
        return known_s


class Step(NamedTuple):
    """One step that has ended.

    Attributes:
        seconds: since the step before it, or since its first batch was requested.
        samples: of this rank.
        input_s: of these, waiting for batches.
        waited: for other ranks.
    """

    seconds: float
    samples: int
    input_s: float
    waited: Waited


@dataclass(eq=False)
class _Reading:
    """One pass over a DataLoader.

    Attributes:
        iterator: refers to the DataLoader's iterator, for as long as that is read.
        length: how many batches it has; None where it cannot tell.
        samples: that came since the last step; batches and input_s likewise.
        seen: batches that steps have had.
        trains: a backward pass has come after a batch of it.
    """

    iterator: Callable[[], Any]
    length: int | None = None
    samples: int = 0
    batches: int = 0
    input_s: float = 0.0
    seen: int = 0
    trains: bool = False

    def empty(self) -> None:
        self.samples, self.batches, self.input_s = 0, 0, 0.0


@dataclass
class _Optimizers:
    """Whose steps end a step: of several optimizers that take turns, one."""

    leader: int = 0
    others: set[int] = field(default_factory=set)

    def ends_step(self, optimizer: int) -> bool:
        if optimizer != self.leader and self.leader and optimizer not in self.others:
            self.others.add(optimizer)
            return False
        # The leader; or another that stepped twice, so that the leader has left.
        self.leader = optimizer
        self.others.clear()
        return True


class Steps:
    """The steps of one rank's current cell.

    Args:
        take_waited: returns what was waited for other ranks since it was called last.

    Attributes:
        taken_in_all: how many steps have been timed.
        largest: the samples of the largest batch of a step.
        epoch: how many passes over its data the training has begun, less one; None without a DataLoader.
        epoch_part: the part of the current pass that is done; None where a DataLoader cannot tell its length.
        has_samples: a batch of a DataLoader was part of a step.
    """

    def __init__(self, take_waited: Callable[[], Waited] = Waited) -> None:
        self._take_waited = take_waited
        self.begin()

    def begin(self, *, keeps: bool = True) -> None:
        """Begin a cell.

        Args:
            keeps: the steps' times are asked for.
        """
        self._keeps = keeps
        self._readings: weakref.WeakKeyDictionary[Any, _Reading] = weakref.WeakKeyDictionary()
        self._pending: list[_Reading] = []
        self._optimizers = _Optimizers()
        self._began_s: float | None = None
        self._is_at_end = False
        self._done: list[Step] = []
        self.taken_in_all = 0
        self.largest = 0
        self.epoch: int | None = None
        self.epoch_part: float | None = None
        self.has_samples = False

    def batch(self, iterator: Any, samples: int, asked_s: float, came_s: float) -> None:
        """Count a batch that came."""
        reading = self._readings.get(iterator)
        if reading is None:
            reading = self._readings[iterator] = _Reading(weakref.ref(iterator), _length(iterator))
        if not reading.batches:
            self._pending.append(reading)
        reading.samples += samples
        reading.batches += 1
        reading.input_s += came_s - asked_s
        if self._began_s is None or self._is_at_end:
            # What followed the last epoch is in no step: validation, a checkpoint.
            self._began_s, self._is_at_end = asked_s, False
            self._take_waited()

    def ended(self, iterator: Any) -> None:
        """Note that a DataLoader has no more batches."""
        reading = self._readings.pop(iterator, None)
        if reading is None:
            return
        if not reading.batches:
            # A loader that fetches ahead ends before its last step.
            self._is_at_end = True
        elif not reading.trains:
            self._pending.remove(reading)
            self.interrupted()

    def interrupted(self) -> None:
        """Leave out the time up to the next batch: an evaluation has come between."""
        self._began_s = None

    def backward(self) -> None:
        """Note a backward pass: batches that came before it are trained on."""
        for reading in self._pending:
            if not reading.trains:
                if reading.iterator() is None:
                    # A loop that was left early, before this one.
                    reading.empty()
                else:
                    reading.trains = True

    def step(self, optimizer: int, at_s: float) -> bool:
        """Count an optimizer's step; return whether it has ended a step of the training."""
        if not self._optimizers.ends_step(optimizer):
            return False
        samples, input_s = 0, 0.0
        if self._pending:
            self._note_pass()
            for reading in self._pending:
                samples += reading.samples
                input_s += reading.input_s
                reading.empty()
            self._pending.clear()
        waited = self._take_waited()
        if self._began_s is not None and self._keeps:
            self._done.append(Step(at_s - self._began_s, samples, input_s, waited))
        self._began_s = at_s
        return True

    def taken(self) -> list[Step]:
        """Return the steps that have ended since the last call."""
        done = self._done[:]
        del self._done[: len(done)]
        self.taken_in_all += len(done)
        return done

    def _note_pass(self) -> None:
        """Note how far the pass over the training's data is, before its batches are counted as seen."""
        self.has_samples = True
        longest = self._pending[0]
        for reading in self._pending:
            if reading.seen > longest.seen:
                longest = reading
        if not longest.seen:
            # Of several DataLoaders that are read together, one that begins again begins no epoch.
            self.epoch = 0 if self.epoch is None else self.epoch + 1
        for reading in self._pending:
            reading.seen += reading.batches
            if reading.batches and reading.samples > self.largest * reading.batches:
                self.largest = reading.samples // reading.batches
        self.epoch_part = longest.seen / longest.length if longest.length else None


def _length(iterator: Any) -> int | None:
    try:
        return len(iterator)
    except (TypeError, NotImplementedError):
        # Of an IterableDataset.
        return None
