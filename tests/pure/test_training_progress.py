"""How far a training is and how long it still takes is said alike by Python and by the browser: one table for both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.engine.sampler import Sampler
from jupyter_ddl.protocol.codec import number_in
from jupyter_ddl.protocol.events import EpochEnded, MetricsSample, RunFinished
from jupyter_ddl.training.fit.telemetry import Telemetry
from jupyter_ddl.views.figures import Figures
from jupyter_ddl.views.metrics_table import metrics_table
from jupyter_ddl.views.training_progress import TrainingProgress

FIXTURE = json.loads((Path(__file__).parents[2] / "labextension/schema/progress.fixture.json").read_text())
ONES = np.ones((8, 2), "float32")


def sample(at_s: Any, epoch: int | None, part: float | None, epochs: int | None, rank: int = 0) -> MetricsSample:
    step = None if epoch is None else 1
    return MetricsSample("r", rank, number_in(at_s), 1.0, 1, step=step, epoch=epoch, epoch_part=part, epochs=epochs)


def ended(at_s: float, epoch: int, is_last: bool, rank: int = 0) -> EpochEnded:
    return EpochEnded("r", rank, at_s, epoch, 1, {}, is_last=is_last)


@pytest.mark.parametrize("case", FIXTURE, ids=[case["name"] for case in FIXTURE])
def test_what_is_said_at_each_event(case: dict[str, Any]) -> None:
    progress = TrainingProgress()
    for at, (what, *given) in enumerate(case["steps"]):
        if what == "text":
            assert progress.text == given[0], at
        elif what == "run_over":
            progress.end()
        elif what == "end":
            progress.ended(ended(*given))
        else:
            progress.sample(sample(*given) if what == "sample" else sample(given[0], None, None, None))


def test_the_table_of_a_terminal_says_it_while_the_run_lasts() -> None:
    figures = Figures()
    for event in (sample(0, 0, 0.1, 4), sample(6, 0, 0.4, 4)):
        figures.handle(event)
    assert metrics_table(figures).splitlines()[-1] == "epoch 1 of 4, 1 min left"
    figures.handle(RunFinished("r", "failed", 7.0))
    assert metrics_table(figures).splitlines()[-1] == "failed after 7 s · epoch 1 of 4"


@pytest.mark.parametrize("is_first", [True, False])
def test_a_fit_reports_its_epochs_and_the_part_of_the_current_one(
    monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    monkeypatch.setattr("jupyter_ddl.engine.epochs.LEAST_S", 0.0)
    events: list[Any] = []
    readings: list[Any] = []

    class Sampled(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            readings.append(state.meter.read())

    with rank_state.replaced(RankState()) as state:
        assert state is not None
        sampler = Sampler(3, state.meter, events.append)
        sampler.begin("r", 1000.0)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        callbacks = [Telemetry(lambda: None, is_first=is_first), Sampled()]
        model.fit(ONES, ONES[:, :1], batch_size=4, epochs=5, initial_epoch=3, verbose=0, callbacks=callbacks)
        sampler.end()
    told = [(one.epoch, one.epoch_part, one.epochs) for one in readings]
    assert told == [(at, part if is_first else None, 5 if is_first else None) for at in (3, 4) for part in (0.5, 1.0)]
    ends = [(event.epoch, event.is_last) for event in events if isinstance(event, EpochEnded)]
    assert ends == [(3, False), (4, True)][: 2 * is_first]
