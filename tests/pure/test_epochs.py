"""What each epoch of a `fit` came to, as its run has it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import keras
import numpy as np
import pytest

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.epochs import Epochs
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.engine.sampler import Sampler
from jupyter_ddl.protocol.events import EpochEnded
from jupyter_ddl.training.fit.telemetry import Telemetry
from jupyter_ddl.views import history
from jupyter_ddl.views.history import History

ONES = np.ones((8, 2), "float32")


class Averaged(keras.callbacks.Callback):
    """Changes an epoch's logs after the first callback has them, as the average over the ranks does."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        logs["val_loss"] = 40.0 + epoch


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
