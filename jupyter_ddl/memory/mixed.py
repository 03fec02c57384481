"""Has a Keras model that is there compute in half precision, with weights in single precision.

Runs on: every rank, or any process.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.memory.remat import forget_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = "float32"


def policy() -> str:
    """Return the policy of half precision on Keras's backend.

    On JAX it is bfloat16, whose range is that of single precision: on cores JAX's exchange loses parts of sums in
    float16 (jax 0.10.2).
    """
    return "mixed_bfloat16" if keras.config.backend() == "jax" else "mixed_float16"


def apply(model: Any) -> None:
    """Set the policy of half precision on a compiled model's layers, and scale its loss where numbers are float16.

    The layers that give the model's outputs stay in single precision, as Keras advises; so do layers that have a policy
    of their own. The optimizer that is there is kept, inside a LossScaleOptimizer.
    """
    if not _set_policies(model):
        return
    if policy() == "mixed_float16" and not isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        model.optimizer = keras.optimizers.LossScaleOptimizer(model.optimizer, name="loss_scale_optimizer")
    forget_functions(model)


@contextmanager
def applied(model: Any) -> Iterator[None]:
    """Set the policies within the block only; the optimizer is left as it is."""
    before = [(layer, layer.dtype_policy) for layer in model._flatten_layers()]
    try:
        _set_policies(model)
        yield
    finally:
        for layer, policy in before:
            layer.dtype_policy = policy
        forget_functions(model)


def _set_policies(model: Any) -> bool:
    """Return whether any layer's policy was changed."""
    last = _of_outputs(model)
    changed = False
    for layer in model._flatten_layers():
        if layer.dtype_policy.name == _PLAIN and id(layer) not in last:
            layer.dtype_policy = policy()
            changed = True
    return changed


def _of_outputs(model: Any) -> set[int]:
    """Return the layers that give a model's outputs, with what is in them."""
    if getattr(model, "outputs", None):
        last = [tensor._keras_history.operation for tensor in model.outputs]
    else:
        last = model.layers[-1:]
    found: set[int] = set()
    for layer in last:
        if isinstance(layer, keras.Model):
            found |= _of_outputs(layer)
        elif isinstance(layer, keras.Layer):
            found |= {id(inner) for inner in layer._flatten_layers()}
    return found
