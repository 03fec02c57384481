"""Findings on several backward passes a step, and on variables that stay each rank's own, against NumPy."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numerics_exchange import SHAPES, WAYS, dense_of, error, every_rank, gradients_of, mean, rows, rows_of, total
from numerics_harness import finding
from numerics_models import STEPS, alone, by_fit, dense_model, global_batches, identical_everywhere, largest, seeded
from numerics_models import shard as shard_of

import jupyter_ddl.keras as hvd

PASSES = 3
CALLS = 7  # the last step is never finished


def passes_by_numpy(k: int, *, average: bool, summed: bool) -> list[list[np.ndarray]]:
    """Return the weights after each call: SGD with momentum on what k calls and all ranks have added up."""
    weights = [np.zeros(shape) for shape in SHAPES]
    velocity = [np.zeros(shape) for shape in SHAPES]
    after = []
    for call in range(1, CALLS + 1):
        if call % k == 0:
            reduce = total if summed else mean
            calls = [[reduce(tensor) for tensor in every_rank(seed=seed)] for seed in range(call - k, call)]
            gradients = [sum(tensor) / (k if average else 1) for tensor in zip(*calls, strict=True)]
            velocity = [0.9 * v - 0.5 * g for v, g in zip(velocity, gradients, strict=True)]
            weights = [w + v for w, v in zip(weights, velocity, strict=True)]
        after.append(weights)
    return after


def passes_on_ranks(k: int, *, graph: bool, **options: Any) -> dict[str, Any]:
    variables = [keras.Variable(np.zeros(shape), dtype="float32") for shape in SHAPES]
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.5, momentum=0.9), backward_passes_per_step=k, **options)
    optimizer.build(variables)

    def step(*gradients: Any) -> None:
        optimizer.apply(list(gradients), variables)

    run = tf.function(step) if graph else step
    after, iterations = [], []
    for seed in range(CALLS):
        run(*map(tf.constant, gradients_of(hvd.rank(), seed=seed)))
        after.append([v.numpy() for v in variables])
        iterations.append(int(optimizer.iterations.numpy()))
    return {"after": after, "iterations": iterations}


@finding
def backward_passes() -> dict[str, Any]:
    answers = {}
    for name, options in {
        "added": {},
        "averaged": {"average_aggregated_gradients": True},
        "summed over ranks": {"op": hvd.Sum},
        "averaged, float16": {"average_aggregated_gradients": True, "compression": hvd.Compression.fp16},
    }.items():
        for way, graph in WAYS.items():
            average = options.get("average_aggregated_gradients", False)
            wanted = passes_by_numpy(PASSES, average=average, summed="op" in options)
            found = passes_on_ranks(PASSES, graph=graph, **options)
            steps = [[np.zeros(shape) for shape in SHAPES], *found["after"]]
            answers[f"{name}, {way}"] = {
                "changed": [bool(largest(a, b) > 0) for a, b in pairwise(steps)],
                "difference": max(
                    float(np.max(np.abs(f - w)))
                    for f_call, w_call in zip(found["after"], wanted, strict=True)
                    for f, w in zip(f_call, w_call, strict=True)
                ),
                "iterations": found["iterations"],
            }
    return answers


@finding
def backward_passes_of_rows() -> dict[str, float]:
    """Two passes of an embedding's slices, made dense."""
    rank, n = hvd.rank(), hvd.size()
    variable = keras.Variable(np.zeros((6, 3)), dtype="float32")
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=2, sparse_as_dense=True)
    optimizer.build([variable])
    run = tf.function(partial(optimizer.apply, [rows(*rows_of(rank))], [variable]))
    run()
    between = float(np.max(np.abs(variable.numpy())))
    run()
    wanted = 2 * mean([dense_of(*rows_of(r)) for r in range(n)])
    return {"between": between, "after": error([-variable.numpy()], [wanted])}


@finding
def backward_passes_in_fit() -> dict[str, Any]:
    """Two passes, averaged, are one step of one process with twice the batch."""
    model = seeded(dense_model)
    batches = global_batches(model)
    doubled = [
        (np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]]))
        for a, b in zip(batches[::2], batches[1::2], strict=True)
    ]
    make_optimizer = partial(keras.optimizers.SGD, 0.2, momentum=0.9)
    wanted = alone(dense_model, make_optimizer(), doubled)
    optimizer = hvd.DistributedOptimizer(
        make_optimizer(), backward_passes_per_step=2, average_aggregated_gradients=True
    )
    by_fit(model, optimizer, shard_of(batches))
    return {
        "difference": largest(model.get_weights(), wanted),
        "every step": largest(alone(dense_model, make_optimizer(), batches), wanted),
        "identical": identical_everywhere(model.get_weights()),
    }


# --- variables that stay each rank's own ------------------------------------------------------------------------


def two_layers() -> Any:
    return keras.Sequential(
        [keras.Input((10,)), keras.layers.Dense(4, name="shared"), keras.layers.Dense(5, name="own")]
    )


@finding
def local_layers() -> dict[str, Any]:
    """One step of SGD(1.0) from gradients of the plain model: shared ones are averaged, own ones are not."""
    answers: dict[str, Any] = {}
    n = hvd.size()
    for name, scaled in {"scaled": True, "not scaled": False}.items():
        gradients = [gradients_of_layers(rank) for rank in range(n)]
        model = seeded(two_layers)
        start = model.get_weights()
        optimizer = hvd.PartialDistributedOptimizer(
            keras.optimizers.SGD(1.0), local_layers=[model.get_layer("own")], scale_local_gradients=scaled
        )
        optimizer.build(model.trainable_variables)
        step = partial(optimizer.apply, [tf.constant(g) for g in gradients[hvd.rank()]], model.trainable_variables)
        tf.function(step)()
        found = [a - b for a, b in zip(start, model.get_weights(), strict=True)]
        shared = [mean(list(tensor)) for tensor in zip(*gradients, strict=True)][:2]
        own = [g / (n if scaled else 1) for g in gradients[hvd.rank()][2:]]
        answers[name] = {"shared": error(found[:2], shared), "own": error(found[2:], own)}
    return answers


def gradients_of_layers(rank: int) -> list[np.ndarray]:
    numbers = np.random.default_rng([13, rank])
    return [numbers.normal(size=w.shape).astype("float32") for w in two_layers().get_weights()]


@finding
def local_layers_in_fit() -> dict[str, Any]:
    """Own layers differ between ranks, and nothing takes that for ranks out of step."""
    model = seeded(two_layers)
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=[model.get_layer("own")])
    by_fit(model, optimizer, shard_of(global_batches(model, STEPS)), epochs=2)
    return {
        "shared": identical_everywhere(model.get_layer("shared").get_weights()),
        "own": identical_everywhere(model.get_layer("own").get_weights()),
    }


@finding
def no_local_layers() -> float:
    """Without local layers it is a DistributedOptimizer."""
    make_optimizer = partial(keras.optimizers.SGD, 0.1, momentum=0.9)
    model = seeded(dense_model)
    by_fit(model, hvd.PartialDistributedOptimizer(make_optimizer()), shard_of(global_batches(model)))
    return largest(model.get_weights(), alone(dense_model, make_optimizer()))
