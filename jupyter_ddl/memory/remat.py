"""Has layers of a Keras model that is there compute their activations again in the backward pass.

Keras asks `keras.RematScope` when a layer is made; here the same is set on layers that were made before, chosen by the
size of what they give.

Runs on: every rank, or any process.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras
from keras.src.backend.common.global_state import get_global_attribute, set_global_attribute
from keras.src.backend.common.remat import RematMode
from keras.src.backend.common.variables import AutocastScope, get_autocast_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Layers that give less than this part of what all give are left alone: each costs time, and saves little.
_LEAST_PART = 0.01
# Of Keras's global state. Source: keras 3.15, src/layers/layer.py, _get_call_context
_CONTEXT = "current_call_ctx"


def apply(model: Any) -> list[Any]:
    """Set it on a model's layers; return those. Layers that have it already, by RematScope, keep their mode."""
    chosen = [layer for layer in choose(model) if layer._remat_mode is None]
    for layer in chosen:
        layer._remat_mode = RematMode("full", 0, [])
        # On the object, past Keras's own __setattr__, which would track it.
        object.__setattr__(layer, "rematerialized_call", _recomputed)
    if chosen:
        forget_functions(model)
    return chosen


@contextmanager
def applied(model: Any) -> Iterator[None]:
    """Set it within the block only."""
    chosen = apply(model)
    try:
        yield
    finally:
        for layer in chosen:
            layer._remat_mode = None
            object.__delattr__(layer, "rematerialized_call")
        forget_functions(model)


def choose(model: Any) -> list[Any]:
    """Return the layers whose activations are to be computed again: the outermost that can be, of a fair size.

    A layer that draws random numbers or keeps statistics (Dropout, BatchNormalization) would draw and count twice, so
    neither it nor a layer around it is taken; what is inside that is looked at one by one. So is what is inside of a
    model with more than half of the weights: to compute all of it again at once takes as much memory as to keep it.
    """
    most = model.count_params() / 2
    candidates = [layer for child in model._layers for layer in _outermost(child, most)]
    sizes = [_size_of_output(layer) for layer in candidates]
    least = _LEAST_PART * sum(size for size in sizes if size is not None)
    return [layer for layer, size in zip(candidates, sizes, strict=True) if size is None or size >= least]


def forget_functions(model: Any) -> None:
    """Have Keras make a model's functions again: those that it has were traced before."""
    model.train_function = model.test_function = model.predict_function = None


def _recomputed(call: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
    """Return a layer's `call` with its activations recomputed, in place of Layer.rematerialized_call.

    Keras's own passes arguments by their names, `training` among them, which TensorFlow refuses in a graph. Here all
    tensors are passed by their places. Source: keras 3.15, src/backend/tensorflow/core.py, remat; tensorflow 2.21,
    python/ops/custom_gradient.py, _graph_mode_decorator. What Keras holds while a layer is called, its precision and
    whether it trains, is as it was then when the layer is computed again.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        scope, context = get_autocast_scope(), get_global_attribute(_CONTEXT)
        flat = keras.tree.flatten((args, kwargs))
        places = [number for number, part in enumerate(flat) if keras.ops.is_tensor(part)]

        def run(*tensors: Any) -> Any:
            parts = list(flat)
            for number, tensor in zip(places, tensors, strict=True):
                parts[number] = tensor
            its_args, its_kwargs = keras.tree.pack_sequence_as((args, kwargs), parts)
            before = get_global_attribute(_CONTEXT)
            set_global_attribute(_CONTEXT, context)
            try:
                with AutocastScope(None if scope is None else scope.dtype):
                    return call(*its_args, **its_kwargs)
            finally:
                set_global_attribute(_CONTEXT, before)

        return keras.remat(run)(*(flat[number] for number in places))

    return called


def _outermost(layer: Any, most: float) -> list[Any]:
    if isinstance(layer, (keras.layers.InputLayer, keras.Metric)) or not isinstance(layer, keras.Layer):
        return []
    is_most = isinstance(layer, keras.Model) and layer.count_params() > most
    if _can_run_twice(layer) and not is_most:
        return [layer] if layer.trainable_weights or layer._layers else []
    return [inner for child in layer._layers for inner in _outermost(child, most)]


def _can_run_twice(layer: Any) -> bool:
    return not any(
        each._non_trainable_variables or each._seed_generators or getattr(each, "stateful", False)
        for each in layer._flatten_layers()
    )


def _size_of_output(layer: Any) -> int | None:
    """Return the elements of a layer's output for one sample; None where that is not known."""
    try:
        outputs = keras.tree.flatten(layer.output)
    except (AttributeError, ValueError):  # it was never called on a KerasTensor, or on several
        return None
    return sum(math.prod(size or 1 for size in output.shape[1:]) for output in outputs)
