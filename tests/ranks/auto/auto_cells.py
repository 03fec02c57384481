"""What cells of `--auto` begin with, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ranks.kernel import Cell


MODEL = """
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(7)
x, y = np.random.rand(60, 4).astype('float32'), np.arange(60) % 3
def made(optimizer='adam'):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
    return model
"""


def told_by(cell: Cell) -> str:
    assert cell.error is not None, cell.text
    return cell.told
