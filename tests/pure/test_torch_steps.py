"""Which batches make a step of a loop of PyTorch's, by what the loop calls; no torch is needed for that."""

from __future__ import annotations

import pytest

from jupyter_ddl.engine.meter import Meter
from jupyter_ddl.torch_training.source import Source
from jupyter_ddl.torch_training.steps import Steps, Waited


class Reader:
    """A DataLoader's iterator.

    Args:
        length: how many batches it has.
    """

    def __init__(self, length: int = 4) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length


class Loop:
    """Calls what a loop calls; each call takes a time that is said."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waited = Waited()
        self.steps = Steps(self._take)
        self.meter = Meter()
        self.source = Source(self.steps, self.meter.reports, "SGD, 10 parameters")

    def _take(self) -> Waited:
        taken, self.waited = self.waited, Waited()
        return taken

    def batch(self, reader: Reader, samples: int = 8, took_s: float = 0.25) -> None:
        asked_s = self.now_s
        self.now_s += took_s
        self.steps.batch(reader, samples, asked_s, self.now_s)

    def backward(self, took_s: float = 0.5, waited_s: float = 0.0) -> None:
        self.now_s += took_s
        self.waited.seconds += waited_s
        self.steps.backward()

    def step(self, optimizer: int = 1) -> bool:
        return self.steps.step(optimizer, self.now_s)


def test_a_step_has_the_batches_since_the_one_before() -> None:
    loop, reader = Loop(), Reader()
    for samples in (8, 8, 8, 4):
        loop.batch(reader, samples)
        loop.backward(waited_s=0.125)
        if samples == 4 or loop.now_s == 1.5:
            loop.step()
    reading = loop.source.read()
    assert reading is not None
    assert (reading.steps, reading.step, reading.epoch, reading.epoch_part) == (2, 2, 0, 1.0)
    assert reading.step_s == 1.5
    assert reading.samples_per_s == 28 / 3.0
    assert (reading.input_s, reading.exchange_s) == (0.5, 0.25)
    assert loop.source.read() is None


def test_what_comes_between_two_epochs_is_in_no_step() -> None:
    loop = Loop()
    for _ in range(2):
        reader = Reader(1)
        loop.batch(reader)
        loop.backward()
        loop.step()
        loop.steps.ended(reader)
        # A validation with gradients, to its end, and a checkpoint.
        validation = Reader()
        loop.batch(validation, 100)
        loop.batch(validation, 100)
        loop.steps.ended(validation)
        loop.now_s += 100
    reading = loop.source.read()
    assert reading is not None
    assert (reading.step_s, reading.samples_per_s, reading.epoch) == (0.75, 8 / 0.75, 1)


def test_a_validation_that_is_left_early_counts_for_nothing() -> None:
    loop, reader = Loop(), Reader()
    loop.batch(reader)
    loop.backward()
    loop.step()
    loop.batch(Reader(), 100)
    loop.batch(reader)
    loop.backward()
    loop.step()
    assert [step.samples for step in loop.steps.taken()] == [8, 8]


def test_batches_that_are_fetched_ahead_count_once() -> None:
    loop = Loop()
    for _ in range(2):
        reader = Reader(3)
        loop.batch(reader)
        for number in range(3):
            if number < 2:
                loop.batch(reader)
            else:
                loop.steps.ended(reader)
            loop.backward()
            loop.step()
        loop.now_s += 100
    steps = loop.steps.taken()
    assert [step.samples for step in steps] == [16, 8, 0] * 2
    # What comes between the epochs is in none.
    assert [step.seconds for step in steps] == [1.0, 0.75, 0.5] * 2


def test_optimizers_that_take_turns_make_one_step() -> None:
    loop, reader = Loop(), Reader()
    ended = []
    for _ in range(3):
        loop.batch(reader)
        for optimizer in (1, 2):
            loop.backward()
            ended.append(loop.step(optimizer))
    assert ended == [True, False] * 3
    # The first one has left: another training begins.
    assert [loop.step(2) for _ in range(3)] == [True, True, True]


def test_loaders_that_are_read_together_are_one_epoch() -> None:
    loop, longer = Loop(), Reader(4)
    for _ in range(2):
        shorter = Reader(2)
        for _ in range(2):
            loop.batch(longer)
            loop.batch(shorter, 2)
            loop.backward()
            loop.step()
    reading = loop.source.read()
    assert reading is not None
    assert (reading.epoch, reading.epoch_part, reading.model) == (0, 1.0, "SGD, 10 parameters, batch 8")
    assert reading.samples_per_s == pytest.approx(40 / 4.0)


def test_a_loop_without_a_loader_has_steps_and_the_samples_that_it_reports() -> None:
    loop = Loop()
    for _ in range(3):
        loop.backward()
        loop.step()
    reading = loop.source.read()
    assert reading is not None
    # The first one only marks a start.
    assert (reading.steps, reading.step_s, reading.samples_per_s) == (2, 0.5, None)
    assert (reading.input_s, reading.exchange_s, reading.epoch) == (None, None, None)
    for _ in range(3):
        loop.backward()
        loop.step()
        loop.meter.reports.add(16, 0.25, {"accuracy": 0.5})
    reading = loop.source.read()
    assert reading is not None
    assert reading.samples_per_s is not None
    assert (reading.loss, reading.metrics) == (0.25, {"accuracy": 0.5})


def test_what_a_library_logs_is_shown_and_what_is_no_number_is_not() -> None:
    loop = Loop()
    loop.source.log({"train_loss": 0.5, "note": "warm", "is_best": True, "accuracy": 1})
    for _ in range(2):
        loop.step()
    reading = loop.source.read()
    assert reading is not None
    assert (reading.loss, reading.metrics) == (0.5, {"accuracy": 1.0})
    # What the code itself reports comes first.
    loop.meter.reports.add(None, 0.25, {})
    loop.step()
    reading = loop.source.read()
    assert reading is not None
    assert (reading.loss, reading.metrics) == (0.25, {"train_loss": 0.5, "accuracy": 1.0})


class Event:
    """An event of a GPU's stream, at a time that comes later."""

    def __init__(self, at_ms: float) -> None:
        self.at_ms = at_ms
        self.is_done = False

    def query(self) -> bool:
        return self.is_done

    def elapsed_time(self, other: Event) -> float:
        return other.at_ms - self.at_ms


def test_what_a_gpu_has_not_done_yet_counts_in_the_next_reading() -> None:
    loop = Loop()
    pairs = [(Event(0), Event(250)), (Event(1000), Event(1500))]
    loop.step()
    for pair in pairs:
        loop.now_s += 1
        loop.waited.events.append(pair)
        loop.step()
    pairs[0][1].is_done = True
    first = loop.source.read()
    loop.now_s += 1
    loop.step()
    pairs[1][1].is_done = True
    second = loop.source.read()
    assert first is not None
    assert second is not None
    assert (first.steps, first.exchange_s) == (2, 0.125)
    assert (second.steps, second.exchange_s) == (1, 0.5)


def test_steps_that_nobody_asks_for_are_not_kept() -> None:
    loop = Loop()
    loop.steps.begin(keeps=False)
    for _ in range(3):
        loop.step()
    assert loop.steps.taken() == []
