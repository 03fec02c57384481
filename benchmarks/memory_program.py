"""A training whose peak of memory is measured: `jupyter ddl run -n 1 [--memory WORDS] memory_program.py ANSWER [MIB]`.

Blocks of two Dense layers with GELU between, which keep far more inside than they are given. The peak is of resident
memory, beyond that before the training. With MIB the process may take so much address space more, and no more: the
training dies where it needs that.

Runs on: every rank.
"""

from __future__ import annotations

import sys
from typing import Any

import keras
import numpy as np

from benchmarks.memory_peak import write_peak

WIDTH, INNER, LENGTH, BLOCKS, BATCH, STEPS = 64, 1024, 64, 6, 64, 4


class Block(keras.layers.Layer):  # type: ignore[misc]
    """Two Dense layers beside the identity."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(INNER, activation="gelu")
        self.outer = keras.layers.Dense(WIDTH)

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], INNER))
        self.built = True

    def call(self, x: Any) -> Any:
        """Return the output."""
        return x + self.outer(self.inner(x))


def made() -> Any:
    """Return a compiled model."""
    keras.utils.set_random_seed(1)
    x = inputs = keras.Input((LENGTH, WIDTH))
    for _ in range(BLOCKS):
        x = Block()(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    model.compile("adam", "mse")
    return model


def main() -> None:
    """Train, and write what was measured."""
    model = made()
    data = np.random.default_rng(0)
    x = data.normal(size=(STEPS * BATCH, LENGTH, WIDTH)).astype("float32")
    y = data.normal(size=(STEPS * BATCH, LENGTH, 1)).astype("float32")
    # The step is traced, and threads have started, on two samples.
    model.fit(x[:2], y[:2], batch_size=2, verbose=0)

    def train() -> float:
        return float(model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"][-1])

    write_peak(train, len(x), *sys.argv[1:])


if __name__ == "__main__":
    main()
