"""One rank of the experiment on convergence: `python -m benchmarks.convergence_program AUTO SEEDS ANSWER`.

AUTO has the arguments of jupyter_ddl.auto as JSON, null for plain Keras in one process. Rank 0 writes each seed's
history to ANSWER.

Runs on: every rank.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import keras

from benchmarks.training_models import cnn
from jupyter_ddl.datasets import mnist

BATCH_SIZE = 64
LEARNING_RATE = 0.05
EPOCHS = 12


def history(seed: int) -> dict[str, list[float]]:
    """Train as a program for one process does; return the history."""
    (x, y), (x_test, y_test), _ = mnist(download=False)
    keras.utils.set_random_seed(seed)
    model = cnn(keras)
    model.compile(
        keras.optimizers.SGD(LEARNING_RATE, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    test = (x_test[..., None].astype("float32") / 255, y_test.astype("int32"))
    fitted = model.fit(
        x[..., None].astype("float32") / 255,
        y.astype("int32"),
        batch_size=BATCH_SIZE,
        epochs=EPOCHS,
        validation_data=test,
        validation_batch_size=500,
        verbose=0,
    )
    keras.utils.clear_session()
    return {name: [round(float(value), 5) for value in values] for name, values in fitted.history.items()}


def main() -> None:
    """Run this rank's part."""
    auto, seeds, answer = json.loads(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    writes = True
    if auto is not None:
        import jupyter_ddl
        import jupyter_ddl.keras as hvd

        jupyter_ddl.auto(**auto)
        hvd.init()
        writes = hvd.rank() == 0
    histories = [history(seed) for seed in range(seeds)]
    if writes:
        answer.write_text(json.dumps(histories))


if __name__ == "__main__":
    main()
