"""The training that throughput.py times on both sides: a cell runs this text, and mpiexec runs it as a script.

Runs on: every rank. Collective: every rank must call `measure`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import jupyter_ddl.keras as hvd
from jupyter_ddl.datasets import mnist

# Name -> images a step on each rank, and steps that are timed.
TRAININGS = {"CNN, batch 64": (64, 400), "CNN, batch 256": (256, 100)}
WARM_UP_STEPS = 20


class Stopwatch(keras.callbacks.Callback):  # type: ignore[misc]
    """Takes the time of all steps but the first ones, in which TensorFlow compiles and caches fill."""

    began_s: float
    seconds: float

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Note when the first timed step begins."""
        if batch == WARM_UP_STEPS:
            self.began_s = time.perf_counter()

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Note how long the timed steps took."""
        self.seconds = time.perf_counter() - self.began_s


def measure() -> dict[str, float]:
    """Return the images per second of all ranks together, by training."""
    hvd.init()
    return {name: images_per_second(*sizes) for name, sizes in TRAININGS.items()}


def images_per_second(batch_size: int, steps: int) -> float:
    """Train notebook 01's model for some steps."""
    (images, labels), _, _ = mnist(download=False)
    n = batch_size * (WARM_UP_STEPS + steps)
    x = np.resize(images, (n, *images.shape[1:], 1)).astype("float32") / 255
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size(), momentum=0.9))
    model.compile(optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    stopwatch = Stopwatch()
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), stopwatch]
    model.fit(x, np.resize(labels, n), batch_size=batch_size, callbacks=callbacks, verbose=0)
    world_size: int = hvd.size()
    return world_size * batch_size * steps / stopwatch.seconds


def use_own_gpu() -> None:
    """Take the GPU of this local rank, as every Horovod script does."""
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
        tf.config.experimental.set_memory_growth(gpus[hvd.local_rank()], True)


def keep_to_own_cores() -> None:
    """Keep this rank to its share of the cores, as a cluster's ranks keep to theirs."""
    from mpi4py import MPI

    from jupyter_ddl.host.cores import cores_of, keep_to

    host = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    keep_to(cores_of(host.rank, host.size))


# In a cell __name__ is "__main__" too, but there is no such argument.
if sys.argv[1:2] == ["measure"]:
    keep_to_own_cores()
    use_own_gpu()
    found = measure()
    if hvd.rank() == 0:
        Path(sys.argv[2]).write_text(json.dumps(found))
