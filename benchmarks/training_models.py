"""What the training benchmark trains: the same layers, data and steps on every side.

A process of a rival has another Keras and no jupyter_ddl: Keras comes in as an argument, the data as a file.

Runs on: every process of every side, on Python 3.9 and newer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Training:
    """What is trained, and for how long.

    Attributes:
        model: makes the model, from the Keras module.
        batch_size: images a step on each rank.
        warm_up_steps: the first steps, in which TensorFlow compiles and caches fill.
        steps: those after them, which are timed.
    """

    model: Callable[[Any], Any]
    batch_size: int
    warm_up_steps: int
    steps: int


def cnn(keras: Any) -> Any:
    """Return the convolutional model of notebook 01: 105,000 parameters in 8 tensors."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.InputLayer((28, 28, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def as_large_as_resnet50(keras: Any) -> Any:
    """Return a model with as many gradients as ResNet-50: 25 million in 160 tensors (ResNet-50: 25.6 in 161).

    The layers are dense, so that a step takes tenths of a second on one core where ResNet-50 itself takes minutes.
    """
    layers = keras.layers
    hidden = [layers.Dense(560, activation="relu", kernel_initializer="he_normal") for _ in range(79)]
    return keras.Sequential([layers.InputLayer((28, 28, 1)), layers.Flatten(), *hidden, layers.Dense(10)])


TRAININGS = {
    "CNN, batch 128": Training(cnn, 128, 30, 200),
    "25 M parameters, batch 256": Training(as_large_as_resnet50, 256, 4, 12),
}


def dataset(data: Path, batch_size: int) -> Any:
    """Return batches of real images and their labels, shuffled, without end."""
    with np.load(data) as arrays:
        x, y = arrays["x"].astype("float32")[..., None] / 255, arrays["y"].astype("int32")
    batches = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).repeat().batch(batch_size, drop_remainder=True)
    return batches.prefetch(2)


def seconds_of_fit(keras: Any, model: Any, batches: Any, training: Training, callbacks: list[Any]) -> float:
    """Train for one epoch; return the seconds of its timed steps."""
    last = training.warm_up_steps + training.steps - 1

    class Stopwatch(keras.callbacks.Callback):  # type: ignore[misc]
        began_s = seconds = 0.0
        # Keras 2 would turn each step's logs into NumPy.
        _supports_tf_logs = True

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
            if batch == training.warm_up_steps:
                self.began_s = time.perf_counter()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            if batch == last:
                self.seconds = time.perf_counter() - self.began_s

    stopwatch = Stopwatch()
    model.fit(batches, steps_per_epoch=last + 1, verbose=0, callbacks=[*callbacks, stopwatch])
    return stopwatch.seconds
