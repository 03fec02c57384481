"""Finds overflow of half precision in the whole batch's gradient, from gradients of its parts.

A LossScaleOptimizer skips an update, and halves its scale, where a gradient is not finite. One process adds up the
gradient of a variable over the whole batch in half precision. The ranks add up parts of it, which may be small enough,
and then these in single precision; so the sum is compared with the limits of half precision.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.training import step
from jupyter_ddl.training.backends import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

_HALF = "float16"


def computed_in_half(model: Any) -> frozenset[int]:
    """Return the variables that a model computes with in half precision, by `step.key`."""
    return frozenset(
        step.key(variable)
        for layer in model._flatten_layers()
        if getattr(layer, "compute_dtype", None) == _HALF
        for variable in layer._trainable_variables
    )


def as_of_whole_batch(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Return gradients of all ranks as one process has them: infinite where half precision cannot hold them.

    Args:
        optimizer: that is about to make an update.
        gradients: reduced over all ranks.
        variables: what they are gradients of.
    """
    now = step.current()
    if now is None or not now.manner.whole_batches or not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return list(gradients)
    pairs = zip(gradients, variables, strict=True)
    return [_limited(gradient) if step.key(variable) in now.in_half else gradient for gradient, variable in pairs]


def _limited(gradient: Any) -> Any:
    if gradient is None or ops.is_slices(gradient):  # rows of different samples: nothing is added up
        return gradient
    return ops.overflowed(gradient)
