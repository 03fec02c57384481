"""Findings in reduced precision: float16 on the wire, mixed policies, and a step that overflows on one rank."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from numerics_harness import finding
from numerics_models import (
    CLASSES,
    FEATURES,
    STEPS,
    alone,
    by_fit,
    by_loop,
    dense_model,
    distances,
    global_batches,
    identical_everywhere,
    is_every_case_asked_for,
    seeded,
    shard,
)

import jupyter_ddl.keras as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

SGD = partial(keras.optimizers.SGD, 0.1, momentum=0.9)
OVERFLOW_AT = 5
SCALE = 2.0**10


def against(wanted: list[np.ndarray], model: Any, start: list[np.ndarray]) -> dict[str, Any]:
    """Return the largest difference as a share of how far each tensor moved."""
    weights = model.get_weights()
    pairs = zip(distances(weights, wanted), distances(wanted, start), strict=True)
    return {
        "relative": max(difference / moved for difference, moved in pairs),
        "identical": identical_everywhere(weights),
    }


@finding
def compressed() -> dict[str, Any]:
    model = seeded(dense_model)
    start = model.get_weights()
    by_fit(model, hvd.DistributedOptimizer(SGD(), compression=hvd.Compression.fp16), shard(global_batches(model)))
    return against(alone(dense_model, SGD()), model, start)


@finding
def mixed_policies() -> dict[str, Any]:
    """fit under a mixed policy, against one process under the same."""
    answers: dict[str, Any] = {}
    # bfloat16 needs no scale: it is float16's way without one.
    policies = ("mixed_bfloat16", "mixed_float16") if is_every_case_asked_for() else ("mixed_float16",)
    for policy in policies:
        keras.config.set_dtype_policy(policy)
        scaled: Callable[[Any], Any] = keras.optimizers.LossScaleOptimizer if policy == "mixed_float16" else _same
        wanted = alone(dense_model, scaled(SGD()))
        model = seeded(dense_model)
        start = model.get_weights()
        optimizer = hvd.DistributedOptimizer(scaled(SGD()))
        by_fit(model, optimizer, shard(global_batches(model)))
        answers[policy] = against(wanted, model, start)
        answers[policy]["variables"] = sorted({str(v.dtype) for v in model.trainable_variables})
        answers[policy]["computed"] = model.layers[0].compute_dtype
        answers[policy]["iterations"] = int(optimizer.iterations.numpy())
        x, y = (np.concatenate(part) for part in zip(*shard(global_batches(model)), strict=True))
        losses = model.fit(x, y, batch_size=len(y) // STEPS, epochs=4, verbose=0).history["loss"]
        answers[policy]["falls"] = [losses[0], losses[-1]]
    return answers


def _same(optimizer: Any) -> Any:
    return optimizer


def unsaturated_model() -> Any:
    """A model whose gradients grow with its input."""
    return keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(12), keras.layers.Dense(CLASSES)])


def overflowing(batches: Any) -> Any:
    """Make one sample of one step, which is rank 0's, too large for scaled float16 gradients."""
    x, y = batches[OVERFLOW_AT]
    x = x.copy()
    x[0] *= 3e3
    return [*batches[:OVERFLOW_AT], (x, y), *batches[OVERFLOW_AT + 1 :]]


def outside(optimizer: Any) -> Any:
    return hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=SCALE))


def inside(optimizer: Any) -> Any:
    """The other way about, which is also what Keras makes of a distributed optimizer under a mixed_float16 policy."""
    return keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(optimizer), initial_scale=SCALE)


@finding
def overflow_on_one_rank() -> dict[str, Any]:
    """The step is skipped on all ranks, in fit and in a custom loop, as in one process."""
    keras.config.set_dtype_policy("mixed_float16")
    batches = overflowing(global_batches(dense_model()))
    plain = keras.optimizers.LossScaleOptimizer(SGD(), initial_scale=SCALE)
    wanted = alone(unsaturated_model, plain, batches)
    answers: dict[str, Any] = {"alone": [float(plain.dynamic_scale.numpy()), int(plain.iterations.numpy())]}
    for name, distribute, train in (
        ("fit", outside, by_fit),
        ("loop, scaled outside", inside, by_loop),
    ):
        model = seeded(unsaturated_model)
        start = model.get_weights()
        optimizer = distribute(SGD())
        train(model, optimizer, shard(batches))
        answers[name] = against(wanted, model, start)
        answers[name]["state"] = [float(optimizer.dynamic_scale.numpy()), int(optimizer.iterations.numpy())]
    return answers


@finding
def policy_and_plain_optimizer() -> dict[str, Any]:
    """What most programs write: a mixed_float16 policy, and a distributed optimizer that Keras scales by itself."""
    keras.config.set_dtype_policy("mixed_float16")
    batches = overflowing(global_batches(dense_model()))
    plain = keras.optimizers.LossScaleOptimizer(SGD())
    wanted = alone(unsaturated_model, plain, batches)
    model = seeded(unsaturated_model)
    start = model.get_weights()
    by_fit(model, hvd.DistributedOptimizer(SGD()), shard(batches))
    scaling = model.optimizer
    return {
        **against(wanted, model, start),
        "scales": isinstance(scaling, keras.optimizers.LossScaleOptimizer),
        "states": [[float(o.dynamic_scale.numpy()), int(o.iterations.numpy())] for o in (plain, scaling)],
    }
