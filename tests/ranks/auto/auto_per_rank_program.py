"""`--auto` where the batch in the code is each rank's, its default, against one process with N times the batch.

Run by `mpiexec -n N python auto_per_rank_program.py FOLDER`. The learning rate stays as it is, so that both are equal.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from mpi4py import MPI  # owns MPI, as in our engine: Horovod's shutdown must not finalise it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORLD = MPI.COMM_WORLD
BATCH_SIZE = 16
# Whole batches on every number of ranks that is tested; and a rest, of which one rank has more than another.
SAMPLES, WITH_A_REST = 192, 187
draw = np.random.default_rng(0)
X = draw.normal(size=(SAMPLES, 8)).astype("float32")
Y = (X[:, :1] - X[:, 1:2] ** 2).astype("float32")
WEIGHTS = draw.uniform(0.1, 2.0, SAMPLES).astype("float32")
CLASSES = (Y[:, 0] > 0).astype("int32")
QUIET: dict[str, Any] = {"epochs": 2, "shuffle": False, "verbose": 0}


class Batches(keras.utils.PyDataset):
    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def __len__(self) -> int:
        return SAMPLES // self.batch_size

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(index * self.batch_size, (index + 1) * self.batch_size)
        return X[rows], Y[rows]


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self(inputs, training=True) - targets))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def model(optimizer: Any = None, loss: str = "mse", outputs: int = 1, kind: Any = keras.Model, **options: Any) -> Any:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((8,))
    hidden = keras.layers.Dense(12, activation="tanh", kernel_regularizer="l2")(inputs)
    made = kind(inputs, keras.layers.Dense(outputs)(hidden))
    made.compile(optimizer or keras.optimizers.Adam(0.01), loss, **options)
    return made


def endless(batch_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    while True:
        for first in range(0, SAMPLES, batch_size):
            yield X[first : first + batch_size], Y[first : first + batch_size]


def with_a_rest(batch_size: int) -> Any:
    made = model(metrics=["mae"])
    x, y = X[:WITH_A_REST], Y[:WITH_A_REST]
    return made, made.fit(x, y, batch_size=batch_size, validation_split=0.25, **QUIET)


def weighted(batch_size: int) -> Any:
    made = model(weighted_metrics=["mae"])
    return made, made.fit(X, Y, batch_size=batch_size, sample_weight=WEIGHTS, **QUIET)


def of_two_classes(batch_size: int) -> Any:
    made = model(loss="sparse_categorical_crossentropy", outputs=2, metrics=["accuracy"])
    return made, made.fit(X, CLASSES, batch_size=batch_size, class_weight={0: 1.0, 1: 3.0}, **QUIET)


def accumulating(batch_size: int) -> Any:
    made = model(keras.optimizers.Adam(0.01, gradient_accumulation_steps=2, global_clipnorm=0.5))
    return made, made.fit(X, Y, batch_size=batch_size, **QUIET)


def of_a_dataset(batch_size: int) -> Any:
    made = model(steps_per_execution=2)
    return made, made.fit(tf.data.Dataset.from_tensor_slices((X, Y, WEIGHTS)).batch(batch_size), **QUIET)


def of_a_generator(batch_size: int) -> Any:
    made = model(keras.optimizers.SGD(0.05, momentum=0.9))
    return made, made.fit(endless(batch_size), steps_per_epoch=SAMPLES // batch_size, **QUIET)


def of_a_pydataset(batch_size: int) -> Any:
    made = model()
    return made, made.fit(Batches(batch_size), **QUIET)


def by_an_own_step(batch_size: int) -> Any:
    made = model(kind=OwnStep)
    return made, made.fit(X, Y, batch_size=batch_size, **QUIET)


KINDS: dict[str, Callable[[int], Any]] = {
    function.__name__: function
    for function in (
        with_a_rest,
        weighted,
        of_two_classes,
        accumulating,
        of_a_dataset,
        of_a_generator,
        of_a_pydataset,
        by_an_own_step,
    )
}


def outcome(kind: str, batch_size: int) -> dict[str, Any]:
    trained, fitted = KINDS[kind](batch_size)
    return {"weights": [weight.tolist() for weight in trained.get_weights()], "history": fitted.history}


def alone() -> dict[str, Any]:
    mine = {kind: outcome(kind, BATCH_SIZE * WORLD.size) for kind in list(KINDS)[WORLD.rank :: WORLD.size]}
    return {kind: found for part in WORLD.allgather(mine) for kind, found in part.items()}


def main() -> None:
    # Before anything of ours or of Horovod's is imported: plain Keras.
    wanted = alone()
    import numerics_harness

    import jupyter_ddl

    numerics_harness.FINDINGS |= {kind: partial(outcome, kind, BATCH_SIZE) for kind in KINDS}
    numerics_harness.FINDINGS["alone"] = lambda: wanted
    jupyter_ddl.auto(batch="per-rank", scale_lr="none", warmup_epochs=0)
    numerics_harness.take_all()


if __name__ == "__main__":
    main()
