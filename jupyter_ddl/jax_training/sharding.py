"""Shards weights, gradients and an optimizer's state over the ranks' devices: `--auto --memory shard-all`.

A step computes what it computes unsharded. JAX's compiler adds what is sent: weights, or activations where those are
smaller.

Runs on: every rank.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras.src.distribution import TensorLayout

# Parts of less are not worth a message: biases, and the scales of norms.
_LEAST_NUMBERS = 1_024


class Sharded(keras.distribution.DataParallel):  # type: ignore[misc]
    """Spreads batches as Keras's DataParallel does, and of each large variable gives a device its part."""

    def get_variable_layout(self, variable: Any) -> Any:
        """Return a variable's own layout, or the one that it is to have."""
        own = getattr(variable, "_layout", None)
        return self.sharded_layout(variable) if own is None else own

    def sharded_layout(self, variable: Any) -> Any:
        """Return the layout that a variable is to have: divided along the largest dimension that the devices divide."""
        shape = tuple(variable.shape)
        axes: list[str | None] = [None] * len(shape)
        devices = self.device_mesh.devices.size
        divisible = [number for number, size in enumerate(shape) if size % devices == 0]
        # The state of random numbers is one key to JAX, which has no parts.
        is_of_numbers = keras.backend.is_float_dtype(variable.dtype)
        if is_of_numbers and divisible and math.prod(shape) >= _LEAST_NUMBERS:
            axes[max(divisible, key=lambda number: shape[number])] = self.batch_dim_name
        return TensorLayout(axes, self.device_mesh)
