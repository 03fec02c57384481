"""Turns TensorFlow's functions on outputs of Keras layers into operations of the model, as Keras 2 did."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import around
from jupyter_ddl.legacy import names
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import add, wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_PACKAGE = "jupyter_ddl"
_BACKEND = "keras.src.legacy.backend"
# What a file may name: functions that compute, and nothing that reads, writes or runs.
_MODULES = ("", "bitwise", "image", "keras.backend", "linalg", "math", "nn", "random", "signal", "sparse", "strings")
_CALLS_OF_PYTHON = ("py_function", "py_func", "numpy_function", "function")
_LOADERS = ("load_library", "load_op_library", "import_graph_def")


def patch_functions(keras: ModuleType) -> None:
    """Have TensorFlow's functions take Keras tensors.

    TensorFlow asks its dispatchers where a function fails on its arguments; Keras 2 had one for this.
    Source: tensorflow 2.21, python/util/dispatch.py, GlobalOpDispatcher; tf_keras, src/layers/core/tf_op_layer.py.
    """
    dispatch = import_module("tensorflow.python.util.dispatch")
    operation = _operation_class(keras)

    class KerasTensors(dispatch.GlobalOpDispatcher):  # type: ignore[name-defined,misc]
        """Takes the calls that have a Keras tensor among their arguments."""

        def handle(self, op: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            """Return the operation's symbolic result, or that the call is not ours."""
            given = keras.tree.flatten((args, kwargs))
            if not any(isinstance(one, keras.KerasTensor) for one in given):
                return self.NOT_SUPPORTED
            say("TensorFlow functions between layers")
            return operation(function=op)(*args, **kwargs)

    KerasTensors().register()
    backend = import_module(_BACKEND)
    for name, stock in list(vars(backend).items()):
        is_function = getattr(stock, "__module__", None) == _BACKEND and callable(stock) and not name.startswith("_")
        if is_function and not names.is_replaced(stock):
            names.replace(stock, around(stock, _PLAIN.get(name) or partial(_or_symbolic, keras, operation)))


def _or_symbolic(keras: Any, operation: Any, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of `keras.backend`; where it fails on a Keras tensor, make it an operation of the model."""
    try:
        return stock(*args, **kwargs)
    except (AttributeError, TypeError, ValueError):
        if not any(isinstance(one, keras.KerasTensor) for one in keras.tree.flatten((args, kwargs))):
            raise
    say("TensorFlow functions between layers")
    return operation(function=stock)(*args, **kwargs)


# Of `keras.backend`: what answers in Python values.
_PLAIN: dict[str, Callable[..., Any]] = {
    "ndim": lambda _stock, x: len(x.shape),
    "dtype": lambda _stock, x: getattr(x.dtype, "name", x.dtype),
}


def patch_tensors(keras: ModuleType) -> None:
    """Give Keras tensors `get_shape()`, and their shape what TensorFlow's shapes have."""
    if not hasattr(keras.KerasTensor, "get_shape"):
        add(keras.KerasTensor, "get_shape", _get_shape)
        wrap(keras.KerasTensor, "shape", _shape)


def _get_shape(self: Any) -> Any:
    say("get_shape")
    return import_module("tensorflow").TensorShape(self.shape)


def _shape(stock: Callable[[Any], tuple[Any, ...]], self: Any) -> _Shape:
    return _Shape(stock(self))


class _Shape(tuple[Any, ...]):
    """A Keras tensor's shape, which is a tuple, with what programs ask of a TensorFlow tensor's."""

    __slots__ = ()

    def as_list(self) -> list[int | None]:
        """Return the dimensions, None where one is not known."""
        say("get_shape")
        return list(self)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        say("get_shape")
        return len(self)

    ndims = rank

    def is_fully_defined(self) -> bool:
        """Return whether every dimension is known."""
        say("get_shape")
        return None not in self


def _operation_class(keras: ModuleType) -> type:
    @keras.saving.register_keras_serializable(package=_PACKAGE)
    class TensorFlowFunction(keras.Operation):  # type: ignore[name-defined,misc]
        """A function of TensorFlow within a functional model.

        Args:
            function: itself, or its public name, e.g. "concat".
            name: of the operation in the model.
        """

        def __init__(self, function: Any, name: str | None = None) -> None:
            self._function = _function_of(function) if isinstance(function, str) else function
            super().__init__(name=name or import_module("keras.src.utils.naming").auto_name(_word(self._function)))

        def call(self, *args: Any, **kwargs: Any) -> Any:
            """Compute it."""
            return self._function(*args, **kwargs)

        def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
            """Return the result's shape and dtype."""
            return keras.src.backend.compute_output_spec(self.call, *args, **kwargs)

        def get_config(self) -> dict[str, Any]:
            """Return what a saved model says of it."""
            return {"function": _name_of(self._function), "name": self.name}

    return TensorFlowFunction


def _word(function: Callable[..., Any]) -> str:
    return f"tf_{getattr(function, '__name__', 'function')}"


def _name_of(function: Callable[..., Any]) -> str:
    """Return the name by which a file names a function.

    Raises:
        InvalidInput: a file may not name it.
    """
    if function.__module__ == _BACKEND:
        return f"keras.backend.{function.__name__}"
    export = import_module("tensorflow.python.util.tf_export")
    name = export.get_canonical_name_for_symbol(function, add_prefix_to_v1_names=True)
    if name is None or not _may_be_named(name):
        raise _unnamed(name or f"{function.__module__}.{function.__name__}")
    return str(name)


def _function_of(name: str) -> Callable[..., Any]:
    """Return the function that a file names.

    Raises:
        InvalidInput: a file may not name it, or this TensorFlow has none of this name.
    """
    module, _, last = name.rpartition(".")
    function: Callable[..., Any] | None = None
    if module == "keras.backend":
        function = vars(import_module(_BACKEND)).get(last)
    elif _may_be_named(name):
        function = import_module("tensorflow.python.util.tf_export").get_symbol_from_name(name)
    if function is None or not callable(function):
        raise _unnamed(name)
    return function


def _may_be_named(name: str) -> bool:
    module, _, last = name.removeprefix("compat.v1.").rpartition(".")
    return module in _MODULES and last not in (*_CALLS_OF_PYTHON, *_LOADERS)


def _unnamed(name: str) -> InvalidInput:
    return InvalidInput(
        "A model's file names functions of TensorFlow that compute, such as tf.concat.",
        name,
        "Write that step in a layer of your own; or save the weights alone.",
    )
