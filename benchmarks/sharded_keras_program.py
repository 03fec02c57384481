"""A training of Keras on JAX that was written for one process: `jupyter ddl run --auto ... PROGRAM FOLDER`.

Blocks of two layers with Adam: weights, gradients and state are nearly all that it needs. Each rank writes its peak of
resident memory, beyond that before the model was made, and what its own parts of weights and state take.

Runs on: every rank.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import psutil

WIDTH, INNER, BLOCKS, BATCH, WARM, STEPS = 512, 2048, 16, 256, 3, 20


class Watch(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes when the first steps have ended, and the last."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's)
        """Note the time."""
        if batch == WARM - 1:
            self.began_s = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Note the time, once the last step's loss is there."""
        self.loss = float(logs["loss"])
        self.seconds = time.perf_counter() - self.began_s


def main() -> None:
    """Train, and write what was measured."""
    keras.utils.set_random_seed(1)
    x = np.random.default_rng(1).normal(size=((WARM + STEPS) * BATCH, WIDTH)).astype("float32")
    before = psutil.Process().memory_info().rss
    output = inputs = keras.Input((WIDTH,))
    for _ in range(BLOCKS):
        inner = keras.layers.Dense(INNER, "gelu")(output)
        output = keras.layers.Add()([output, keras.layers.Dense(WIDTH)(inner)])
    model = keras.Model(inputs, keras.layers.Dense(1)(output))
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    watch = Watch()
    model.fit(x, x.sum(axis=1, keepdims=True), batch_size=BATCH, verbose=0, callbacks=[watch])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    variables = [*model.variables, *model.optimizer.variables]
    held = sum(variable.value.addressable_data(0).nbytes for variable in variables)
    found = {
        "peak_mib": peak / 2**20,
        "held_mib": held / 2**20,
        "samples_s": STEPS * BATCH / watch.seconds,
        "loss": watch.loss,
    }
    (Path(sys.argv[1]) / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
