"""Measures training steps of Keras on JAX: what is kept for the backward pass, and how long a step takes.

Runs on: every rank, or any process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    from collections.abc import Callable


def kept_bytes(model: Any, loss_of: Callable[[Any, Any, Any], Any], batch: Any) -> tuple[float, bool]:
    """Return the bytes of what the backward pass reads, the weights among it, and that all were counted.

    Nothing is computed: JAX's `vjp` of shapes gives the shapes that its backward function holds.
    """
    trained, others = _state(model)

    def backward(weights: Any) -> Any:
        return jax.vjp(lambda weights: loss_of(weights, others, batch), weights)[1]

    kept = jax.tree_util.tree_leaves(jax.eval_shape(backward, trained))
    return float(sum(leaf.size * leaf.dtype.itemsize for leaf in kept)), True


def seconds(model: Any, loss_of: Callable[[Any, Any, Any], Any], batch: Any, repetitions: int) -> list[float]:
    """Return the times of some steps, forward and backward, without an update."""
    trained, others = _state(model)
    step = jax.jit(lambda weights, batch: jax.grad(loss_of)(weights, others, batch))
    times = []
    for _ in range(repetitions + 1):
        began = time.perf_counter()
        jax.block_until_ready(step(trained, batch))
        times.append(time.perf_counter() - began)
    return times[1:]


def _state(model: Any) -> tuple[list[Any], list[Any]]:
    trained = [variable.value for variable in model.trainable_variables]
    return trained, [variable.value for variable in model.non_trainable_variables]
