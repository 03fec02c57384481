"""The convolutional model of notebook 01: 105,000 parameters in 8 tensors, batch 128, SGD with momentum.

It is small, so that a step is short and what the exchange costs shows. Runs on: every process that trains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jupyter_ddl.scaling_program.models.definition import BenchmarkModel, Part, one_part


def _parts(keras: Any, size: int) -> list[Part]:
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.InputLayer((size, size, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return one_part(model, keras.optimizers.SGD(0.02, momentum=0.9), loss)


def _data(random: np.random.Generator, samples: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images of ten classes: a pattern of the class, the same in every process, under noise."""
    patterns = np.random.default_rng(0).random((10, size, size, 1), "float32")
    labels = random.integers(0, 10, samples).astype("int32")
    return (patterns[labels] + random.normal(0, 1, (samples, size, size, 1))).astype("float32"), labels


MODEL = BenchmarkModel("cnn", "notebook 01 of jupyter_ddl", 128, 28, _parts, _data)
