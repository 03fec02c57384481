"""Lets layers take arguments that Keras 3 warns of, or no longer takes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.host.patching import around
from jupyter_ddl.legacy import names
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import wrap, wrap_method

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# What these said, where Keras 3 does just that: how to compute, not what. Argument: the values that may be dropped.
_DROPPED: dict[str, tuple[Any, ...]] = {
    "fused": (None, True, False),
    # Keras 3.12, the newest for Python 3.10, has no renorm.
    "renorm": (None, False),
    "virtual_batch_size": (None,),
    "adjustment": (None,),
    "time_major": (False,),
    "implementation": (0, 1, 2),
}
_BATCH_SHAPE = "_batch_shape_of_keras_2"


def patch_names_of_arguments(keras: ModuleType) -> None:
    """Have layers take by their old names, with no warning, what Keras 3 still knows."""
    for layer, initialise in {
        "InputLayer": _initialise_input,
        "Embedding": _initialise_embedding,
        "LeakyReLU": _initialise_leaky_relu,
    }.items():
        wrap_method(getattr(keras.layers, layer), "__init__", initialise)


def patch_arguments(keras: ModuleType) -> None:
    """Have layers take `input_shape`, `batch_input_shape`, and what was said of how they compute."""
    wrap_method(keras.layers.Layer, "__init__", _initialise)
    wrap_method(keras.Sequential, "add", _add)


def patch_shapes(keras: ModuleType) -> None:
    """Have `keras.Input` take the one size of a vector in place of its shape, as `InputLayer` and `input_shape` do."""
    names.replace(keras.Input, around(keras.Input, _with_tuple))


def patch_sequential(keras: ModuleType) -> None:
    """Give Sequential models `input` and `output` before they are called."""
    for name in ("input", "output"):
        # In this class alone: other operations inherit the same property.
        wrap(keras.Sequential, name, partial(_end_of_sequential, name))


def patch_sequences(keras: ModuleType) -> None:
    """Have a user's Sequence do without `super().__init__()`."""
    wrap_method(keras.utils.PyDataset, "_warn_if_super_not_called", _set_defaults)


def serve_recurrent(keras: ModuleType) -> None:
    """Serve `CuDNNLSTM` and `CuDNNGRU`, which LSTM and GRU are on a GPU."""
    names.move("layers", "CuDNNLSTM", "CuDNNLSTM", lambda _: keras.layers.LSTM)
    names.move("layers", "CuDNNGRU", "CuDNNLSTM", lambda _: keras.layers.GRU)


def _end_of_sequential(name: str, stock: Callable[[Any], Any], self: Any) -> Any:
    try:
        return stock(self)
    except AttributeError:
        if not self._functional:
            raise
    say("Sequential.input")
    return getattr(self._functional, name)


def _initialise(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    for name, values in _DROPPED.items():
        if name in kwargs and any(kwargs[name] is value or kwargs[name] == value for value in values):
            say("how layers compute")
            del kwargs[name]
    # Past Keras's own __setattr__, which would look for variables to track.
    if (batch_shape := kwargs.pop("batch_input_shape", None)) is not None:
        vars(self)[_BATCH_SHAPE] = tuple(batch_shape)
    dimension, shape = kwargs.pop("input_dim", None), kwargs.pop("input_shape", None)
    if dimension is not None:
        shape = (dimension,)
    if shape is not None:
        say("input_shape")
        if isinstance(shape, (int, np.integer)):
            say("Input(5)")
            shape = (int(shape),)
        vars(self)["_input_shape_arg"] = shape
    stock(self, *args, **kwargs)


def _initialise_input(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    if "input_shape" in kwargs:
        say("InputLayer(input_shape=...)")
        kwargs["shape"] = kwargs.pop("input_shape")
    _with_tuple(partial(stock, self), *args, **kwargs)


def _with_tuple(stock: Callable[..., Any], shape: Any = None, *args: Any, **kwargs: Any) -> Any:
    if isinstance(shape, (int, np.integer)):
        say("Input(5)")
        shape = (int(shape),)
    return stock(shape, *args, **kwargs)


def _initialise_embedding(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    if kwargs.pop("input_length", None) is not None:
        say("input_length")
    stock(self, *args, **kwargs)


def _initialise_leaky_relu(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    if "alpha" in kwargs:
        say("LeakyReLU(alpha=...)")
        kwargs["negative_slope"] = kwargs.pop("alpha")
    stock(self, *args, **kwargs)


def _add(stock: Callable[..., None], self: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
    shape = getattr(layer, "__dict__", {}).get(_BATCH_SHAPE)
    if shape is not None and not self._layers:
        say("batch_input_shape")
        from keras.layers import InputLayer

        stock(self, InputLayer(batch_shape=shape))
    stock(self, layer, *args, **kwargs)


def _set_defaults(_stock: Callable[..., None], self: Any) -> None:
    for name, value in {"_workers": 1, "_use_multiprocessing": False, "_max_queue_size": 10}.items():
        if not hasattr(self, name):
            say("Sequence without super().__init__")
            setattr(self, name, value)
