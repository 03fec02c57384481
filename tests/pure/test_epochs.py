"""What each epoch of a `fit` came to, as its run has it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.epochs import Epochs
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.engine.sampler import Sampler
from jupyter_ddl.protocol.events import EpochEnded, MetricsSample
from jupyter_ddl.training.fit.telemetry import Telemetry
from jupyter_ddl.views import history
from jupyter_ddl.views.figures import Figures
from jupyter_ddl.views.history import History

if TYPE_CHECKING:
    from jupyter_ddl.protocol.readings import TrainingReading

ONES = np.ones((8, 2), "float32")


class Averaged(keras.callbacks.Callback):
    """Changes an epoch's logs after the first callback has them, as the average over the ranks does."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        logs["val_loss"] = 40.0 + epoch


class Interrupt(keras.callbacks.Callback):
    """Interrupts a training after its first step."""

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("is_first", [True, False])
def test_the_sampler_sends_each_epoch_with_its_validation(monkeypatch: pytest.MonkeyPatch, is_first: bool) -> None:
    monkeypatch.setattr("jupyter_ddl.engine.epochs.LEAST_S", 0.0)
    events: list[Any] = []
    with rank_state.replaced(RankState()) as state:
        assert state is not None
        sampler = Sampler(3, state.meter, events.append)
        sampler.begin("r", 1000.0)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
        callbacks = [Telemetry(lambda: None, is_first=is_first), Averaged()]
        data = {"x": ONES, "y": ONES[:, :1], "validation_data": (ONES, ONES[:, :1])}
        model.fit(**data, batch_size=4, epochs=3, verbose=0, callbacks=callbacks)
        sampler.end()
    epochs = [event for event in events if isinstance(event, EpochEnded)]
    assert [(one.run, one.rank, one.epoch, one.step) for one in epochs] == [
        ("r", 3, at, 2 * at + 2) for at in range(3)
    ][: 3 * is_first]
    for one in epochs:
        assert one.metrics.keys() == {"loss", "mae", "val_loss", "val_mae"}
        assert one.metrics["val_loss"] == 40.0 + one.epoch


def test_steps_count_on_where_a_cell_trains_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser's curves and the picture show one training after the other; a third one is interrupted before."""
    monkeypatch.setattr("jupyter_ddl.engine.epochs.LEAST_S", 0.0)
    events: list[Any] = []
    readings: list[TrainingReading] = []
    figures = Figures()
    with rank_state.replaced(RankState()) as state:
        assert state is not None
        sampler = Sampler(0, state.meter, events.append)
        sampler.begin("r", 1000.0)
        for lasts in (2, 1, 2):
            model = keras.Sequential([keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            stop = Interrupt() if lasts == 1 else keras.callbacks.Callback()
            with suppress(KeyboardInterrupt):
                model.fit(
                    ONES, ONES[:, :1], batch_size=4, epochs=lasts, verbose=0, callbacks=[Telemetry(lambda: None), stop]
                )
            reading = state.meter.read()
            assert reading is not None
            readings.append(reading)
        sampler.end()
    assert [(one.step, one.steps) for one in readings] == [(4, 4), (5, 1), (9, 4)]
    ended = [event for event in events if isinstance(event, EpochEnded)]
    assert [(one.epoch, one.step, one.is_last) for one in ended] == [
        (0, 2, False),
        (1, 4, True),
        (0, 7, False),
        (1, 9, True),
    ]
    for one in readings:
        figures.handle(MetricsSample("r", 0, 1000.0, 0.0, 0, **asdict(one)))
    assert [place for place, _ in figures.losses.points()] == [4.5, 5.5, 9.5]


def test_short_epochs_are_not_all_sent_and_the_last_one_is() -> None:
    sent: list[int] = []
    now_s = 0.0
    epochs = Epochs(lambda: now_s)
    epochs.ended(0, 1, 0.0, {"loss": 1.0}, is_last=True)
    epochs.begin(lambda epoch, step, at_s, metrics, *, is_last: sent.append(epoch))
    for epoch in range(100):
        now_s = epoch / 50
        epochs.ended(epoch, epoch, 0.0, {"loss": 1.0}, is_last=epoch == 99)
    assert sent[0] == 0
    assert sent[-1] == 99
    assert 18 <= len(sent) <= 21
    epochs.end()
    epochs.ended(100, 1, 0.0, {"loss": 1.0}, is_last=True)
    assert sent[-1] == 99


def ended(epoch: int, rank: int = 0) -> EpochEnded:
    return EpochEnded("r", rank, 0.0, epoch, epoch, {"loss": 1.0})


def test_a_history_keeps_epochs_of_one_rank_evenly_and_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_EPOCHS", 10)
    kept = History()
    kept.add(ended(7, rank=2))
    for epoch in range(100):
        kept.add(ended(epoch))
        kept.add(ended(epoch, rank=1))
        found = [entry.event for entry in kept.entries()]
        assert all(isinstance(event, EpochEnded) and event.rank == 0 for event in found)
        assert found[-1] == ended(epoch)
    epochs = [event.epoch for event in found if isinstance(event, EpochEnded)]
    assert 5 <= len(epochs) <= 10
    assert len({after - before for before, after in pairwise(epochs[:-1])}) == 1
