"""One rank of one side of the speed of `jupyter_ddl.auto`: `python -m benchmarks.auto_program SIDE DATA ANSWER WAY...`.

Both sides train the same model on the same images, with as many in a step. Rank 0 writes images a second of all ranks
together, by the way that the data come, to ANSWER.

Runs on: every rank.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import jupyter_ddl
import jupyter_ddl.keras as hvd
from benchmarks.keras_program import Stopwatch
from benchmarks.training_models import cnn

BATCH_SIZE = 128
STEPS = 150  # an epoch
EPOCHS = 4  # the first is not timed


def by_auto(way: str, x: Any, y: Any) -> float:
    """Train as a program for one process does; return the seconds."""
    is_global = way == "arrays, global batch"
    jupyter_ddl.auto(batch="global" if is_global else "per-rank", scale_lr="none", warmup_epochs=0)
    batch_size = BATCH_SIZE * (hvd.size() if is_global else 1)
    return _seconds(keras.optimizers.SGD(1e-4, momentum=0.9), way, x, y, batch_size, [])


def by_hand(way: str, x: Any, y: Any) -> float:
    """Train as Horovod's documentation teaches; return the seconds."""
    mine = slice(hvd.rank(), None, hvd.size())
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1e-4, momentum=0.9))
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    return _seconds(optimizer, way, x[mine], y[mine], BATCH_SIZE, callbacks)


def _seconds(optimizer: Any, way: str, x: Any, y: Any, batch_size: int, callbacks: list[Any]) -> float:
    model = cnn(keras)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss, metrics=["accuracy"])
    stopwatch = Stopwatch()
    options: dict[str, Any] = {"epochs": EPOCHS, "verbose": 0, "callbacks": [*callbacks, stopwatch]}
    if way == "tf.data":
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(batch_size).prefetch(2)
        model.fit(dataset, **options)
    else:
        model.fit(x, y, batch_size=batch_size, **options)
    hvd.check_in_sync(model)
    return stopwatch.seconds


def main() -> None:
    """Run this rank's part."""
    side, data, answer, *ways = sys.argv[1:]
    hvd.init()
    images = hvd.size() * BATCH_SIZE * STEPS
    with np.load(data) as arrays:
        x = np.resize(arrays["x"], (images, 28, 28, 1)).astype("float32") / 255
        y = np.resize(arrays["y"], images).astype("int32")
    train = {"auto": by_auto, "by hand": by_hand}[side]
    figures = {way: (EPOCHS - 1) * images / train(way, x, y) for way in ways}
    if hvd.rank() == 0:
        Path(answer).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
