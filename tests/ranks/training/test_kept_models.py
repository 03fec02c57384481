"""Models of Keras's that are kept when their ranks are ended as idle, in a process that takes their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kept_cells import in_process

if TYPE_CHECKING:
    from pathlib import Path

CELL = """
import keras
import numpy as np
import tensorflow as tf
keras.utils.set_random_seed(0)
@keras.saving.register_keras_serializable()
class Twice(keras.layers.Layer):
    def call(self, x):
        return 2 * x
class Same(keras.layers.Layer):
    def __init__(self, size):
        super().__init__()
        self.dense = keras.layers.Dense(size)
    def call(self, x):
        return self.dense(x)
base = keras.Sequential([keras.layers.Dense(3)])
model = keras.Sequential([keras.Input((4,)), base, Twice(), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
optimizer = model.optimizer
no_config = keras.Sequential([keras.Input((4,)), Same(2)])
x = np.random.default_rng(0).random((32, 4))
y = x.sum(1)
history = model.fit(x, y, epochs=2, verbose=0)
scale = tf.Variable(3.0)
"""
STEP = """
@tf.function
def scaled(values):
    return scale * values
"""
ANSWER = """
answer = [
    float(model.evaluate(x, y, verbose=0, return_dict=True)["loss"]), int(model.optimizer.iterations),
    history.model is model, float(scaled(tf.constant(2.0))),
]
"""
CONTINUED = "answer.append(model.fit(x, y, epochs=1, shuffle=False, verbose=0).history['loss'][0])"


def test_a_keras_model_continues_with_its_optimizer_and_what_it_would_copy_is_left_out(tmp_path: Path) -> None:
    before, told = in_process("save", tmp_path, CELL, STEP, ANSWER)
    assert told["kept"] == ["history", "model", "scale", "x", "y"]
    assert set(told["left_out"]) == {"base", "no_config", "optimizer"}
    for name in ("base", "optimizer"):
        assert told["left_out"][name].endswith(
            "its weights are those of a Sequential that is kept, and Keras would copy them"
        )
    after, told = in_process("load", tmp_path, ANSWER, CONTINUED)
    assert told == {"raised": {}}
    loss, steps, is_same, product, next_loss = after
    assert [loss, steps, is_same, product] == before
    assert (steps, is_same, product) == (2, True, 6.0)
    assert next_loss < loss * 1.001
