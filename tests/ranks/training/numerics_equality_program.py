"""20 steps on all ranks against one process with the global batch.

Run on ranks by `numerics_world.world_on`, or by `mpiexec -n N python numerics_equality_program.py FOLDER`.
NUMERICS_CASES=all takes every way to train for every model and optimizer. Else a third of the pairs of these is taken,
each in one way, with every model, optimizer and way among them; float32 and float64 take other pairs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras
from numerics_harness import finding, in_precision, take_all
from numerics_models import (
    MODELS,
    WAYS,
    alone,
    by_loop,
    distances,
    global_batches,
    identical_everywhere,
    is_every_case_asked_for,
    largest,
    seeded,
    shard,
    shared_out,
)

import jupyter_ddl.keras as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "Adam": lambda: keras.optimizers.Adam(0.01),
    "AdamW": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.02),
    "Adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "Lamb": lambda: keras.optimizers.Lamb(0.02),
}
PRECISIONS = ("float32", "float64")


def cases(precision: str) -> list[tuple[str, str, str]]:
    """Return model, optimizer and way of each case."""
    if is_every_case_asked_for():
        return [(model, optimizer, way) for model in MODELS for optimizer in OPTIMIZERS for way in WAYS]
    ways = list(WAYS)
    shift = PRECISIONS.index(precision)
    return [
        (model, optimizer, ways[(shift + i + 2 * j) % 3])
        for i, model in enumerate(MODELS)
        for j, optimizer in enumerate(OPTIMIZERS)
        # Tracing is most of the time.
        if (shift + i + j) % 3 == 0
    ]


def compare(precision: str) -> dict[str, Any]:
    in_precision(precision)
    wanted = shared_out({f"{m} {o}": partial(reference, m, o) for m, o, _ in cases(precision)})
    return {f"{m} {o} {way}": together(m, o, way, wanted[f"{m} {o}"]) for m, o, way in cases(precision)}


def reference(model: str, optimizer: str) -> Any:
    return alone(MODELS[model], OPTIMIZERS[optimizer]())


def together(model_name: str, optimizer_name: str, way: str, wanted: Any) -> dict[str, Any]:
    model = seeded(MODELS[model_name])
    start = model.get_weights()
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS[optimizer_name]())
    WAYS[way](model, optimizer, shard(global_batches(model)))
    weights = model.get_weights()
    return {
        "difference": largest(weights, wanted),
        "moved": min(distances(weights, start)),
        "dtypes": sorted({str(v.dtype) for v in model.trainable_variables}),
        "iterations": int(optimizer.iterations.numpy()),
        "identical": identical_everywhere([*weights, *(v.numpy() for v in optimizer.variables)]),
    }


@finding
def float32() -> dict[str, Any]:
    return compare("float32")


@finding
def float64() -> dict[str, Any]:
    return compare("float64")


@finding
def without_exchange() -> dict[str, float]:
    """The same comparison of plain optimizers on shards: it must fail, or it would show nothing."""
    answers = {}
    wanted = shared_out({name: partial(reference, "dense", name) for name in OPTIMIZERS})
    for name, make_optimizer in OPTIMIZERS.items():
        model = seeded(MODELS["dense"])
        by_loop(model, make_optimizer(), shard(global_batches(model)))
        answers[name] = largest(model.get_weights(), wanted[name])
    return answers


if __name__ == "__main__":
    take_all()
