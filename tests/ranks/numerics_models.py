"""Models, data and the ways to train them, for the numerics programs; and the one process that they must equal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

import jupyter_ddl.keras as hvd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STEPS = 20
GLOBAL_BATCH = 16
CLASSES = 5
FEATURES = 10
WORDS = 30

Batches = list[tuple[np.ndarray, np.ndarray]]


def dense_model() -> Any:
    return keras.Sequential(
        [keras.Input((FEATURES,)), keras.layers.Dense(12, activation="tanh"), keras.layers.Dense(CLASSES)]
    )


def conv_model() -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(CLASSES),
        ]
    )


def embedding_model() -> Any:
    """A model whose first gradient is IndexedSlices, with rows that ranks and samples have in common."""
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            keras.layers.Embedding(WORDS, 4, embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0)),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(CLASSES),
        ]
    )


MODELS: dict[str, Callable[[], Any]] = {"dense": dense_model, "conv": conv_model, "embedding": embedding_model}


def seeded(make: Callable[[], Any]) -> Any:
    """Return a model with the same initial weights on every rank and each time."""
    keras.utils.set_random_seed(3)
    return make()


def samples(model: Any, n: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return n samples for a model, the same on every rank."""
    numbers = np.random.default_rng(seed)
    y = numbers.integers(0, CLASSES, n)
    shape = model.input_shape[1:]
    if model.inputs[0].dtype == "int32":
        return numbers.integers(0, WORDS, (n, *shape)).astype("int32"), y
    return numbers.normal(size=(n, *shape)).astype(keras.config.floatx()), y


def global_batches(model: Any, steps: int = STEPS, batch: int = GLOBAL_BATCH) -> Batches:
    """Return what one process sees, a step at a time."""
    x, y = samples(model, steps * batch)
    return list(zip(np.split(x, steps), np.split(y, steps), strict=True))


def shard(batches: Batches, rank: int | None = None) -> Batches:
    """Return this rank's even part of each global batch."""
    rank, size = hvd.rank() if rank is None else rank, hvd.size()
    return [(np.split(x, size)[rank], np.split(y, size)[rank]) for x, y in batches]


def loss_function() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


# --- ways to train ---------------------------------------------------------------------------------------------


def by_loop(model: Any, optimizer: Any, batches: Iterable[Any]) -> None:
    """Train in a custom loop with tf.function. With a plain optimizer nothing of ours has a part in this."""
    loss_of = loss_function()
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(loss_of(y, model(x, training=True)))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    for x, y in batches:
        step(tf.constant(x), tf.constant(y))


def by_fit(model: Any, optimizer: Any, batches: Batches, compiled: dict[str, Any] | None = None, **options: Any) -> Any:
    model.compile(optimizer, loss=loss_function(), **(compiled or {}))
    # Variables that come into being in the step have TensorFlow trace it twice; test_training leaves that to fit.
    model.optimizer.build(model.trainable_variables)
    x, y = (np.concatenate(part) for part in zip(*batches, strict=True))
    return model.fit(x, y, batch_size=len(batches[0][0]), shuffle=False, verbose=0, **options)


def by_batch(model: Any, optimizer: Any, batches: Batches) -> None:
    model.compile(optimizer, loss=loss_function())
    model.optimizer.build(model.trainable_variables)
    for x, y in batches:
        model.train_on_batch(x, y)


WAYS: dict[str, Callable[[Any, Any, Batches], Any]] = {"fit": by_fit, "batch": by_batch, "loop": by_loop}


def alone(make_model: Callable[[], Any], optimizer: Any, batches: Batches | None = None) -> list[np.ndarray]:
    """Return the weights of one process with the global batch: plain Keras, a plain loop.

    Needs no other rank, so that ranks can take different references.
    """
    model = seeded(make_model)
    by_loop(model, optimizer, global_batches(model) if batches is None else batches)
    # What fit does at its end (averages of weights take the weights' place).
    optimizer.finalize_variable_values(model.trainable_variables)
    weights: list[np.ndarray] = model.get_weights()
    return weights


def is_every_case_asked_for() -> bool:
    return os.environ.get("NUMERICS_CASES") == "all"


def some_of(cases: dict[str, Any], one_of_each_kind: Iterable[str]) -> dict[str, Any]:
    """Return one case of each kind on two ranks; each third on one and on four: tracing takes most of the time.

    NUMERICS_CASES=all takes every case, as tests/slow does.
    """
    if is_every_case_asked_for():
        return cases
    if hvd.size() == 2:
        return {name: cases[name] for name in one_of_each_kind}
    return dict(list(cases.items())[0 if hvd.size() == 1 else 1 :: 3])


def shared_out(makers: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Return every reference, each computed by one rank.

    Collective: every rank must call this.
    """
    mine = {name: make() for i, (name, make) in enumerate(makers.items()) if i % hvd.size() == hvd.rank()}
    return {name: answer for part in hvd.allgather_object(mine) for name, answer in part.items()}


# --- differences ------------------------------------------------------------------------------------------------


def distances(a: Iterable[np.ndarray], b: Iterable[np.ndarray]) -> list[float]:
    """Return the norm of the difference, a tensor at a time."""
    return [float(np.linalg.norm(np.subtract(p, q, dtype="float64"))) for p, q in zip(a, b, strict=True)]


def largest(a: Iterable[np.ndarray], b: Iterable[np.ndarray]) -> float:
    return max(distances(a, b))


def identical_everywhere(arrays: Iterable[np.ndarray]) -> bool:
    """Return whether all ranks hold the same bits.

    Collective: every rank must call this.
    """
    every_rank = hvd.allgather_object([(a.shape, a.dtype.str, a.tobytes()) for a in map(np.asarray, arrays)])
    return all(other == every_rank[0] for other in every_rank)
