"""Which samples each step has, seen in the weights: with `jupyter_ddl.auto` in both modes, for each kind of data.

The model has one weight a sample, and the loss is the mean of the batch's weights: a step of SGD at rate 1 takes
1/samples from the weight of each of its samples, and nothing from the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mpi4py import MPI

SAMPLES = 50
BATCH_SIZE = 8
EPOCHS = 3
IDS = np.arange(SAMPLES, dtype="int32")
# Keras wants targets; the loss ignores them.
TARGETS = np.zeros(SAMPLES, "float32")


class Steps(keras.callbacks.Callback):
    """Notes the samples of each step, by epoch, and how often the step has each."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.epochs: list[list[dict[int, float]]] = []
        self._before = self._weights()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append([])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now = self._weights()
        taken = self._before - now
        self._before = now
        ids = np.flatnonzero(taken)
        # The samples of a step without repetitions all lose 1/n.
        self.epochs[-1].append({int(i): float(taken[i] * len(ids)) for i in ids})

    def _weights(self) -> np.ndarray:
        return self.model.get_weights()[0][:, 0].astype("float64")


def mean_of_weights(_: Any, weights: Any) -> Any:
    return keras.ops.mean(weights)


class Batches(keras.utils.PyDataset):
    """Seven batches; the last has two samples."""

    def __len__(self) -> int:
        return -(-SAMPLES // BATCH_SIZE)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(index * BATCH_SIZE, (index + 1) * BATCH_SIZE)
        return IDS[part], TARGETS[part]


def batches_forever() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield eight batches again and again: of a generator without end an epoch has what the steps make it."""
    while True:
        yield from zip(np.array_split(IDS, 8), np.array_split(TARGETS, 8), strict=True)


def slices() -> Any:
    return tf.data.Dataset.from_tensor_slices((IDS, TARGETS))


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "arrays": lambda: {"x": IDS, "y": TARGETS, "batch_size": BATCH_SIZE},
    "dataset": lambda: {"x": slices().cache().shuffle(SAMPLES).batch(BATCH_SIZE)},
    "PyDataset": lambda: {"x": Batches(), "shuffle": False},
    "generator": lambda: {"x": batches_forever(), "steps_per_epoch": 8},
}
SHUFFLED = ("arrays", "dataset")


def made() -> Any:
    """Return a model for all kinds of data: tracing takes most of the time."""
    model = keras.Sequential([keras.Input((), dtype="int32"), keras.layers.Embedding(SAMPLES, 1)])
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=mean_of_weights)
    return model


def steps_of(kind: str, model: Any) -> list[list[dict[int, float]]]:
    """Return the samples of each step of each epoch, over all ranks together."""
    keras.utils.set_random_seed(1)
    steps = Steps()
    model.fit(**KINDS[kind](), epochs=EPOCHS, callbacks=[steps], verbose=0)
    return steps.epochs


def orders_of(epochs: list[list[dict[int, float]]]) -> list[list[list[int]]]:
    return [[sorted(step) for step in epoch] for epoch in epochs]


def alone(world: MPI.Comm) -> dict[str, list[list[list[int]]]]:
    """Return the samples of each step in one process, by kind; each kind is trained on by one of the ranks."""
    model = made()
    mine = {kind: orders_of(steps_of(kind, model)) for kind in list(KINDS)[world.rank :: world.size]}
    return {kind: orders for part in world.allgather(mine) for kind, orders in part.items()}


def samples(batch: str) -> dict[str, Any]:
    import jupyter_ddl  # not above: one process is plain Keras

    jupyter_ddl.auto(batch=batch, scale_lr="none", warmup_epochs=0)
    answers = {}
    model = made()
    for kind in KINDS:
        epochs = steps_of(kind, model)
        answers[kind] = {
            "counts": [[sum(step.get(i, 0.0) for step in epoch) for i in range(SAMPLES)] for epoch in epochs],
            "orders": orders_of(epochs),
            "rerun": orders_of(steps_of(kind, model)) if kind in SHUFFLED else None,
        }
    return answers


def findings() -> dict[str, Callable[[], Any]]:
    return {f"samples {batch}": partial(samples, batch) for batch in ("global", "per-rank")}
