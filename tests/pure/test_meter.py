"""What loops of the user's own report, and what becomes of it."""

from __future__ import annotations

import pytest

import jupyter_ddl
from jupyter_ddl.engine import meter
from jupyter_ddl.events import TrainingReading


@pytest.fixture(autouse=True)
def _fresh() -> None:
    meter.begin()


def test_nothing_is_read_before_two_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    assert meter.read() is None
    jupyter_ddl.report(samples=32)
    assert meter.read() is None


def test_reports_become_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter([10.0, 10.5, 10.6, 12.0, 14.0])
    monkeypatch.setattr(meter.time, "perf_counter", lambda: next(now_s))
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


def test_what_a_training_has_not_told_at_its_end_is_kept() -> None:
    training = Training([TrainingReading(step=1, steps=1), TrainingReading(step=2, steps=1)])
    meter.attach(training)
    assert meter.read() == TrainingReading(step=1, steps=1)
    meter.detach(training)
    assert meter.read() == TrainingReading(step=2, steps=1)
    assert meter.read() is None


def test_the_next_cell_begins_anew() -> None:
    training = Training([TrainingReading(step=1, steps=1)])
    meter.attach(training)
    meter.begin()
    assert meter.read() is None
