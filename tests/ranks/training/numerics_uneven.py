"""Findings on ranks with different amounts of data: fit against one process whose k-th step has all k-th batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from numerics_harness import finding, in_precision
from numerics_models import (
    alone,
    dense_model,
    embedding_model,
    identical_everywhere,
    largest,
    loss_function,
    samples,
    seeded,
    shared_out,
    some_of,
)

import jupyter_ddl.keras as hvd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LOCAL_BATCH = 4
EPOCHS = 2
PASSES = 3
# Samples of each rank: 6, 4, 2 and 1 batches, three of them with a smaller last one.
SAMPLES = {"batches differ": (22, 13, 8, 3), "last batch differs": (12, 9, 11, 10)}

SGD = partial(keras.optimizers.SGD, 0.2, momentum=0.9)
Part = tuple[np.ndarray, np.ndarray]


def parts(model: Any, kind: str) -> list[Part]:
    """Return every rank's samples."""
    sizes = SAMPLES[kind][: hvd.size()]
    x, y = samples(model, sum(sizes))
    ends = np.cumsum(sizes)[:-1]
    return list(zip(np.split(x, ends), np.split(y, ends), strict=True))


def unions(every_rank: list[Part]) -> list[Part]:
    """Return one process's batches: its k-th holds the k-th batches of the ranks that have one."""
    steps = range(0, max(len(y) for _, y in every_rank), LOCAL_BATCH)
    return [
        tuple(np.concatenate([part[i][k : k + LOCAL_BATCH] for part in every_rank]) for i in (0, 1))  # type: ignore[misc]
        for k in steps
    ]


def as_arrays(part: Part) -> dict[str, Any]:
    return {"x": part[0], "y": part[1], "batch_size": LOCAL_BATCH}


def as_dataset(part: Part) -> dict[str, Any]:
    return {"x": tf.data.Dataset.from_tensor_slices(part).batch(LOCAL_BATCH)}


def as_unknown_length(part: Part) -> dict[str, Any]:
    """A dataset that does not know how many batches it has, as after a filter."""
    return {"x": tf.data.Dataset.from_tensor_slices(part).filter(lambda x, y: True).batch(LOCAL_BATCH)}


def fitted(make_model: Callable[[], Any], optimizer: Any, kind: str, given: Any, **options: Any) -> dict[str, Any]:
    model = seeded(make_model)
    every_rank = parts(model, kind)
    callbacks = [
        *options.pop("callbacks", ()),
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ]
    model.compile(optimizer, loss=loss_function(), **options.pop("compiled", {}))
    optimizer.build(model.trainable_variables)  # as in numerics_models.by_fit
    arguments = {"epochs": EPOCHS, "shuffle": False, "verbose": 0, "callbacks": callbacks, **options}
    history = model.fit(**given(every_rank[hvd.rank()]), **arguments).history
    return {"model": model, "history": history, "every_rank": every_rank}


# Name -> model, optimizer, sizes, how data is given, more of fit's arguments.
CASES: dict[str, tuple[Any, Any, str, Any, dict[str, Any]]] = {
    "batches differ, arrays": (dense_model, SGD, "batches differ", as_arrays, {}),
    "batches differ, dataset": (dense_model, SGD, "batches differ", as_dataset, {}),
    "batches differ, unknown length": (dense_model, SGD, "batches differ", as_unknown_length, {}),
    "batches differ, Adagrad": (dense_model, partial(keras.optimizers.Adagrad, 0.1), "batches differ", as_arrays, {}),
    "batches differ, embedding": (embedding_model, SGD, "batches differ", as_arrays, {}),
    "last batch differs, arrays": (dense_model, SGD, "last batch differs", as_arrays, {}),
    "last batch differs, unknown length": (dense_model, SGD, "last batch differs", as_unknown_length, {}),
    "last batch differs, embedding": (embedding_model, SGD, "last batch differs", as_arrays, {}),
    "last batch differs, XLA": (dense_model, SGD, "last batch differs", as_arrays, {"compiled": {"jit_compile": True}}),
}
# Arrays of both kinds are also trained on in float64.
ONE_OF_EACH_KIND = (
    "batches differ, dataset",
    "batches differ, unknown length",
    "batches differ, embedding",
    "last batch differs, XLA",
)


def compare_all(names: Iterable[str]) -> dict[str, Any]:
    # Several ways to give data have the same reference.
    makers = {reference_name(name): partial(reference, *CASES[name][:3]) for name in names}
    wanted = shared_out(makers)
    return {name: compare(name, wanted[reference_name(name)]) for name in names}


def reference_name(name: str) -> str:
    """Return a name of the case's reference that is the same on all ranks."""
    make_model, make_optimizer, kind, _, _ = CASES[name]
    return f"{make_model.__name__}, {make_optimizer.func.__name__}, {kind}"


def reference(make_model: Callable[[], Any], make_optimizer: Callable[[], Any], kind: str) -> list[np.ndarray]:
    return alone(make_model, make_optimizer(), EPOCHS * unions(parts(make_model(), kind)))


def compare(name: str, wanted: list[np.ndarray]) -> dict[str, Any]:
    make_model, make_optimizer, kind, given, options = CASES[name]
    optimizer = hvd.DistributedOptimizer(make_optimizer())
    found = fitted(make_model, optimizer, kind, given, **options)
    weights = found["model"].get_weights()
    return {
        "difference": largest(weights, wanted),
        "moved": largest(weights, seeded(make_model).get_weights()),
        "identical": identical_everywhere([*weights, *(v.numpy() for v in optimizer.variables)]),
    }


@finding
def uneven() -> dict[str, Any]:
    return compare_all(some_of(CASES, ONE_OF_EACH_KIND))


@finding
def uneven_in_float64() -> dict[str, Any]:
    in_precision("float64")
    return compare_all(("batches differ, arrays", "last batch differs, arrays"))


@finding
def uneven_and_weighed_alike() -> float:
    """How far off ranks of equal weight end: the bound on the difference must notice it."""
    every_rank = parts(dense_model(), "last batch differs")
    model = seeded(dense_model)
    optimizer, loss_of = SGD(), loss_function()
    optimizer.build(model.trainable_variables)
    for _ in range(EPOCHS):
        for k in range(0, max(len(y) for _, y in every_rank), LOCAL_BATCH):
            with tf.GradientTape() as tape:
                losses = [loss_of(y[k : k + 4], model(x[k : k + 4])) for x, y in every_rank if k < len(y)]
                loss = tf.add_n(losses) / len(every_rank)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return largest(model.get_weights(), alone(dense_model, SGD(), EPOCHS * unions(every_rank)))


@finding
def uneven_passes() -> dict[str, Any]:
    """Three passes a step, where ranks run out of batches within a step and epochs end within one."""
    every_rank = parts(dense_model(), "batches differ")
    optimizer = hvd.DistributedOptimizer(SGD(), backward_passes_per_step=PASSES, average_aggregated_gradients=True)
    found = fitted(dense_model, optimizer, "batches differ", as_arrays, epochs=PASSES)
    weights = found["model"].get_weights()
    return {
        "difference": largest(weights, alone_in_passes(PASSES * unions(every_rank))),
        "identical": identical_everywhere([*weights, *(v.numpy() for v in optimizer.variables)]),
    }


def alone_in_passes(batches: list[Part]) -> list[np.ndarray]:
    """One process whose step has the mean of the gradients of PASSES batches, whatever their sizes."""
    model = seeded(dense_model)
    optimizer, loss_of = SGD(), loss_function()
    optimizer.build(model.trainable_variables)
    for k in range(0, len(batches) - PASSES + 1, PASSES):
        with tf.GradientTape() as tape:
            loss = tf.add_n([loss_of(y, model(x)) for x, y in batches[k : k + PASSES]]) / PASSES
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    weights: list[np.ndarray] = model.get_weights()
    return weights


@finding
def uneven_metrics() -> dict[str, Any]:
    """The epochs' metrics against one process that trains on the same batches and validates on all of the data."""
    model = seeded(dense_model)
    validation = parts(model, "batches differ")
    own: list[dict[str, float]] = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: own.append(dict(logs)))
    options = {"validation_batch_size": LOCAL_BATCH, "validation_data": validation[hvd.rank()]}
    found = fitted(
        dense_model,
        hvd.DistributedOptimizer(SGD()),
        "last batch differs",
        as_arrays,
        compiled={"metrics": metrics_of_predictions()},
        callbacks=[note],
        **options,
    )
    batches = unions(found["every_rank"])
    x, y = (np.concatenate(part) for part in zip(*validation, strict=True))
    model.compile(SGD(), loss=loss_function(), metrics=metrics_of_predictions())
    options["validation_data"] = (x, y)
    history = model.fit(Given(batches), epochs=EPOCHS, shuffle=False, verbose=0, **options).history
    return {"found": found["history"], "wanted": history, "unaveraged": own[-1]}


def metrics_of_predictions() -> list[Any]:
    return ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(k=2, name="top2")]


class Given(keras.utils.PyDataset):
    """Batches as they are, of any sizes."""

    def __init__(self, batches: list[Part]) -> None:
        super().__init__()
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, i: int) -> Part:
        return self._batches[i]
