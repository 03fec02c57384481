"""Restores functions of keras.backend that are gone, or no longer take what Keras makes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import around
from jupyter_ddl.legacy import names
from jupyter_ddl.legacy.learning_phase import learning_phase, set_learning_phase
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.sessions import forget_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_ORDERINGS = {"tf": "channels_last", "th": "channels_first"}


def patch_values(_keras: ModuleType) -> None:
    """Make `get_value` and `set_value` take Keras 3's variables, and plain numbers."""
    legacy = import_module("keras.src.legacy.backend")
    replacements: dict[str, Callable[..., Any]] = {
        "set_value": _set_value,
        "batch_set_value": _batch_set_value,
        "get_value": _get_value,
        "eval": _get_value,
    }
    for name, ours in replacements.items():
        stock = getattr(legacy, name)
        names.replace(stock, around(stock, ours))


def serve_functions(keras: ModuleType) -> None:
    """Serve in `keras.backend` the functions that only `tf.keras.backend` still has."""
    tree = import_module(f"{names.TF_TREE}.backend")
    for name in vars(tree):
        if not name.startswith("_") and not hasattr(keras.backend, name):
            names.move("backend", name, "backend functions", lambda _, name=name: getattr(tree, name))  # type: ignore[misc]


def serve_gone(keras: ModuleType) -> None:
    """Serve what neither has: the learning phase, Keras 1's orderings, `function`, and what was TensorFlow's."""
    names.move("backend", "learning_phase", None, lambda _: learning_phase)
    names.move("backend", "set_learning_phase", None, lambda _: set_learning_phase)
    names.move("backend", "image_dim_ordering", "image_dim_ordering", lambda _: _image_dim_ordering)
    names.move("backend", "set_image_dim_ordering", "image_dim_ordering", lambda _: _set_image_dim_ordering)
    names.move("backend", "function", "K.function", lambda _: function)
    names.move("backend", "tf", "backend functions", lambda _: import_module("tensorflow"))
    names.move("backend", "is_tensor", "backend functions", lambda _: import_module("tensorflow").is_tensor)
    names.move("backend", "logsumexp", "backend functions", lambda _: _logsumexp)
    names.move(
        "backend",
        "control_dependencies",
        "backend functions",
        lambda _: import_module("tensorflow").control_dependencies,
    )
    stock = keras.backend.clear_session
    names.replace(stock, around(stock, _clear_session))


def _clear_session(stock: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    forget_session()
    stock(*args, **kwargs)


def _get_value(stock: Callable[..., Any], x: Any) -> Any:
    return x.numpy() if isinstance(x, import_module("keras").Variable) else stock(x)


def _set_value(stock: Callable[..., None], x: Any, value: Any) -> None:
    if isinstance(x, import_module("keras").Variable):
        say("K.set_value")
        x.assign(np.asarray(value, dtype=x.dtype))
    elif isinstance(x, (int, float)):
        raise InvalidInput(
            "K.set_value sets a variable.",
            f"the number {x}",
            "Set the attribute itself, e.g. optimizer.momentum = 0.9, before compile.",
        )
    else:
        stock(x, value)


def _batch_set_value(_stock: Callable[..., None], tuples: Any) -> None:
    legacy = import_module("keras.src.legacy.backend")
    for x, value in tuples:
        _set_value(legacy.set_value, x, value)


def _image_dim_ordering() -> str:
    today = import_module("keras").backend.image_data_format()
    return next(old for old, new in _ORDERINGS.items() if new == today)


def _set_image_dim_ordering(ordering: str) -> None:
    import_module("keras").backend.set_image_data_format(_ORDERINGS[ordering])


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return import_module("tensorflow").reduce_logsumexp(x, axis, keepdims)


def function(inputs: Any, outputs: Any, updates: Any = None, name: Any = None, **_: Any) -> Callable[[Any], Any]:
    """Return a function from a list of arrays to the values of a model's tensors.

    Raises:
        InvalidInput: it is to change variables too.
    """
    if updates:
        raise InvalidInput(
            "K.function computes and changes nothing in Keras 3.",
            "updates",
            "Write the change in a train_step or a tf.function.",
        )
    # The learning phase was passed as one more input.
    tensors = [one for one in (inputs if isinstance(inputs, (list, tuple)) else [inputs]) if one is not learning_phase]
    compute = import_module("keras").Model(tensors, outputs, name=name)

    def computed(values: Any) -> Any:
        given = list(values) if isinstance(values, (list, tuple)) else [values]
        found = compute(given[: len(tensors)], training=False)
        several = found if isinstance(found, (list, tuple)) else [found]
        arrays = [one.numpy() for one in several]
        return arrays if isinstance(outputs, (list, tuple)) else arrays[0]

    say("K.function")
    return computed
