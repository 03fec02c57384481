"""What `fit` was given, as the record of a run has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.training.fit.given_parameters import GivenParameters, batch_size, log_folder, loss_name, of_optimizer

if TYPE_CHECKING:
    from collections.abc import Callable

ONES = np.ones((8, 2), "float32")


def test_a_fit_reports_what_it_was_given() -> None:
    sent: list[dict[str, Any]] = []
    with rank_state.replaced(RankState()) as state:
        assert state is not None
        state.meter.parameters.begin(sent.append)
        model = keras.Sequential([keras.layers.Dense(1)], name="small")
        model.compile(keras.optimizers.Adam(0.02), "mse")
        given = {"x": ONES, "batch_size": 4, "epochs": 2}
        model.fit(y=ONES[:, :1], verbose=0, callbacks=[GivenParameters(given)], **given)
    assert sent == [
        {
            "model": "small",
            "batch_size": 4,
            "epochs": 2,
            "steps_per_epoch": 2,
            "loss": "mse",
            "optimizer": "Adam",
            "learning_rate": 0.02,
        },
        {"model_parameters": 3},
    ]


@pytest.mark.parametrize(
    ("x", "given", "size"),
    [
        (ONES, 4, 4),
        (ONES, None, 32),
        ({"a": ONES}, None, 32),
        (tf.data.Dataset.from_tensor_slices(ONES).batch(3, drop_remainder=True), None, 3),
        (tf.data.Dataset.from_tensor_slices(ONES).batch(3), None, None),
        (iter([ONES]), None, None),
        (None, None, None),
        (ONES, "4", None),
    ],
)
def test_the_batch_size(x: Any, given: Any, size: int | None) -> None:
    assert batch_size(x, given) == size


@pytest.mark.parametrize("wrapped", [lambda one: one, lambda one: [one], lambda one: (keras.callbacks.History(), one)])
def test_the_folder_of_a_tensorboard_callback(wrapped: Callable[[Any], Any], tmp_path: Path) -> None:
    assert log_folder(wrapped(keras.callbacks.TensorBoard(tmp_path / "logs"))) == str(tmp_path / "logs")
    callbacks = keras.callbacks.CallbackList([keras.callbacks.TensorBoard("logs")])
    assert log_folder(callbacks) == str(Path("logs").absolute())
    assert log_folder([keras.callbacks.History()]) is None
    assert log_folder(None) is None


def test_a_schedule_and_a_scaled_loss() -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(schedule))
    expected = {"optimizer": "SGD", "learning_rate": 0.1, "learning_rate_schedule": "ExponentialDecay"}
    assert of_optimizer(scaled) == expected
    assert of_optimizer(object()) == {"optimizer": "object", "learning_rate": None, "learning_rate_schedule": None}


def my_loss(y: Any, predicted: Any) -> Any:
    return y - predicted


def test_losses_have_names() -> None:
    assert loss_name("mse") == "mse"
    assert loss_name(keras.losses.MeanSquaredError()) == "mean_squared_error"
    assert loss_name(my_loss) == "my_loss"
    assert loss_name({"a": "mse", "b": my_loss}) == "mse, my_loss"
    assert loss_name([None]) is None
    assert loss_name(None) is None
    assert loss_name("x" * 300) == "x" * 200
