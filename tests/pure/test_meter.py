"""What loops of the user's own report, and what becomes of it."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.meter import Meter, largest_batch
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.protocol.readings import TrainingReading

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def meter() -> Iterator[Meter]:
    """Return the meter of the rank that this process is meanwhile."""
    state = RankState()
    with rank_state.replaced(state):
        yield state.meter


def test_nothing_is_read_before_two_reports(meter: Meter) -> None:
    assert meter.read() is None
    jupyter_ddl.report(samples=32)
    assert meter.read() is None


def test_reports_become_one_reading(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter([10.0, 10.5, 10.6, 12.0, 14.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now_s))
    jupyter_ddl.report(samples=32)
    jupyter_ddl.report(samples=32, loss=2)
    jupyter_ddl.report(samples=16, accuracy=0.5)
    jupyter_ddl.report(samples=32, loss=1.0)
    reading = meter.read()
    assert reading is not None
    assert (reading.step, reading.steps, reading.loss, reading.metrics) == (3, 3, 1.0, {"accuracy": 0.5})
    assert reading.samples_per_s == pytest.approx(80 / 2.0)
    assert reading.step_s == pytest.approx(2 / 3)
    assert reading.step_p50_s == pytest.approx(0.5)
    assert meter.read() is None
    jupyter_ddl.report(samples=64)
    later = meter.read()
    assert later is not None
    assert (later.step, later.steps, later.samples_per_s) == (4, 1, pytest.approx(32.0))


class Training:
    def __init__(self, readings: list[TrainingReading]) -> None:
        self.readings = readings

    def read(self) -> TrainingReading | None:
        return self.readings.pop(0) if self.readings else None


def test_what_a_training_has_not_told_at_its_end_is_kept(meter: Meter) -> None:
    training = Training([TrainingReading(step=1, steps=1), TrainingReading(step=2, steps=1)])
    meter.attach(training)
    assert meter.read() == TrainingReading(step=1, steps=1)
    meter.detach(training)
    assert meter.read() == TrainingReading(step=2, steps=1)
    assert meter.read() is None


def test_the_next_cell_begins_anew(meter: Meter) -> None:
    training = Training([TrainingReading(step=1, steps=1)])
    meter.attach(training)
    meter.begin()
    assert meter.read() is None


@pytest.mark.parametrize(
    ("batches", "largest"),
    [
        ([32], 32),
        ([32] * 1000, 32),
        ([32] * 31 + [8], 32),
        ([1], 1),
        ([128] * 468 + [96], 128),
        ([1_000_003] * 5 + [1], 1_000_003),
        ([0, 64], 64),
        ([0, 0], 0),
    ],
)
def test_the_largest_batch_is_known_though_one_is_short(batches: list[int], largest: int) -> None:
    assert largest_batch(len(batches), sum(batches), sum(size * size for size in batches)) == largest


def test_of_batches_of_any_size_the_largest_is_never_told_too_large() -> None:
    draw = random.Random(2)
    for _ in range(1000):
        batches = [draw.randint(0, 300) for _ in range(draw.randint(1, 50))]
        told = largest_batch(len(batches), sum(batches), sum(size * size for size in batches))
        assert sum(batches) / len(batches) <= told <= max(batches)
