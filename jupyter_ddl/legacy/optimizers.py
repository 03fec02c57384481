"""Restores arguments, attributes and methods of optimizers that Keras 3 dropped.

`decay` keeps its old meaning: a step with `optimizer.iterations` = k uses learning_rate / (1 + decay * k), and
`optimizer.learning_rate` stays the number before that, which callbacks read and set.
Source: tensorflow 2.10, keras/optimizers/optimizer_v2/optimizer_v2.py, `_decayed_lr` and `_set_hyper`.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.legacy import names
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import Attribute, add, add_missing, wrap, wrap_method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

_DECAY = "_decay_of_keras_2"
_UPDATING = "_updates_with_decay"
# Of Keras 2.11 to 2.15: how to run, not what to compute.
_DROPPED = ("jit_compile", "is_legacy_optimizer")
_LEGACY = ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop", "SGD")
_LOWER_CASE = ("Adadelta", "Adagrad", "Adam", "Adamax", "Nadam", "RMSprop", "SGD")


def patch_arguments(keras: ModuleType) -> None:
    """Have every optimizer take `lr`, `decay` and whole numbers."""
    base = _base()
    wrap_method(base, "__init__", _initialise, ("lr",))
    wrap_method(base, "_get_current_learning_rate", _current_learning_rate)
    wrap_method(base, "_backend_apply_gradients", _apply)
    wrap_method(base, "get_config", _config)
    add(base, "decay", Attribute(lambda optimizer: vars(optimizer).get(_DECAY, 0.0)))
    for optimizer in _built_in(keras):
        if {"epsilon", "momentum"} & set(inspect.signature(optimizer.__init__).parameters):
            wrap_method(optimizer, "__init__", _initialise_built_in)


def patch_attributes(keras: ModuleType) -> None:
    """Give every optimizer `lr`, `variables()`, `weights`, `get_weights` and `minimize`."""
    base = _base()
    add(base, "lr", property(_read_lr, _set_lr))
    for optimizer in {base, *_built_in(keras)}:
        if isinstance(vars(optimizer).get("variables"), property):
            wrap(optimizer, "variables", _variables)
    add_missing(base, "weights", Attribute(_read_weights))
    add_missing(base, "get_weights", _get_weights)
    add_missing(base, "minimize", _minimize)
    wrap_method(base, "apply_gradients", _apply_gradients, ("experimental_aggregate_gradients",))


def serve_old_names(keras: ModuleType) -> None:
    """Have `keras.optimizers.legacy.SGD` and `keras.optimizers.sgd` be `keras.optimizers.SGD`."""

    def read(name: str) -> Callable[[ModuleType], Any]:
        return lambda _: getattr(keras.optimizers, name)

    for name in _LEGACY:
        names.move("optimizers.legacy", name, "legacy optimizers", read(name), instead=True)
    for name in _LOWER_CASE:
        names.move("optimizers", name.lower(), "lower-case optimizers", read(name))
    names.retire("optimizers.experimental", "optimizers", "experimental optimizers")


def _base() -> Any:
    return import_module("keras.src.optimizers.base_optimizer").BaseOptimizer


def _built_in(keras: ModuleType) -> list[Any]:
    public = vars(keras.optimizers).values()
    return [thing for thing in public if isinstance(thing, type) and issubclass(thing, keras.optimizers.Optimizer)]


# --- arguments -----------------------------------------------------------------------------------------------------


def _initialise(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    for name in _DROPPED:
        if kwargs.pop(name, None) is not None:
            say("jit_compile")
    if kwargs.pop("schedule_decay", None) is not None:
        raise InvalidInput(
            "Nadam's momentum schedule cannot be chosen in Keras 3.",
            "schedule_decay",
            "Leave it out, or take Adam.",
        )
    decay = kwargs.pop("decay", None)
    lr = kwargs.pop("lr", None)
    if lr is not None:
        say("lr")
        args = args[1:]
        kwargs["learning_rate"] = lr
    if args:
        args = (_as_float(args[0]), *args[1:])
    elif "learning_rate" in kwargs:
        kwargs["learning_rate"] = _as_float(kwargs["learning_rate"])
    stock(self, *args, **kwargs)
    if decay:
        say("decay")
        # Past TensorFlow's __setattr__, which looks for variables to track.
        vars(self)[_DECAY] = float(decay)


def _as_float(rate: Any) -> Any:
    """Return a whole number, NumPy's number or a tensor's as the float that Keras 3 wants; others as they are."""
    if isinstance(rate, (int, np.integer, np.floating)) and not isinstance(rate, (bool, float)):
        say("whole numbers")
        return float(rate)
    if not isinstance(rate, float) and not callable(rate) and not hasattr(rate, "assign") and hasattr(rate, "numpy"):
        say("whole numbers")
        return float(rate)
    return rate


def _initialise_built_in(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    call = inspect.signature(stock).bind_partial(self, *args, **kwargs)
    given = call.arguments
    momentum = given.get("momentum")
    if isinstance(momentum, int):
        say("whole numbers")
        given["momentum"] = float(momentum)
    if "epsilon" in given and given["epsilon"] is None:
        say("epsilon=None")
        given["epsilon"] = import_module("keras").backend.epsilon()
    stock(*call.args, **call.kwargs)


def _current_learning_rate(stock: Callable[..., Any], self: Any) -> Any:
    rate = stock(self)
    if not vars(self).get(_UPDATING):
        return rate
    ops = import_module("keras").ops
    steps = ops.cast(self._iterations, rate.dtype)
    return rate / (1.0 + vars(self)[_DECAY] * steps)


def _apply(stock: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    if not vars(self).get(_DECAY):
        return stock(self, *args, **kwargs)
    vars(self)[_UPDATING] = True
    try:
        return stock(self, *args, **kwargs)
    finally:
        vars(self)[_UPDATING] = False


def _config(stock: Callable[..., dict[str, Any]], self: Any) -> dict[str, Any]:
    """Add `decay` as Keras 2 did; Keras 3 knows it in a file, says that it ignores it, and opens the model."""
    config = stock(self)
    if vars(self).get(_DECAY):
        config["decay"] = vars(self)[_DECAY]
    return config


# --- attributes ----------------------------------------------------------------------------------------------------


class CallableList(list[Any]):
    """An optimizer's variables, as an attribute and, as once, as a method."""

    def __call__(self) -> list[Any]:
        """Return the variables."""
        say("optimizer.variables()")
        return list(self)


def _variables(stock: Callable[[Any], Iterable[Any]], self: Any) -> CallableList:
    return CallableList(stock(self))


def _read_lr(self: Any) -> Any:
    say("optimizer.lr")
    return self.learning_rate


def _set_lr(self: Any, rate: Any) -> None:
    say("optimizer.lr")
    self.learning_rate = rate


def _read_weights(self: Any) -> list[Any]:
    say("optimizer.get_weights")
    return list(self.variables)


def _get_weights(self: Any) -> list[Any]:
    """Return the values of the optimizer's variables, for `set_weights`."""
    say("optimizer.get_weights")
    return [np.asarray(variable.numpy()) for variable in self.variables]


def _apply_gradients(
    stock: Callable[..., Any],
    self: Any,
    grads_and_vars: Any,
    name: str | None = None,
    experimental_aggregate_gradients: bool | None = None,
    **kwargs: Any,
) -> Any:
    if name is not None or experimental_aggregate_gradients is not None:
        say("apply_gradients(name=...)")
    return stock(self, grads_and_vars, **kwargs)


def _minimize(self: Any, loss: Any, var_list: Any, grad_loss: Any = None, name: Any = None, tape: Any = None) -> Any:
    """Take one step that lowers a loss: a function that returns it, or with `tape` its value."""
    del name  # of an operation in TensorFlow 1's graph
    tf: Any = import_module("tensorflow")
    say("optimizer.minimize")
    if tape is None:
        with tf.GradientTape() as tape:
            loss = loss()
    variables = list(var_list() if callable(var_list) else var_list)
    keras = import_module("keras")
    plain = [variable.value if isinstance(variable, keras.Variable) else variable for variable in variables]
    gradients = tape.gradient(loss, plain, grad_loss)
    return self.apply_gradients(zip(gradients, variables, strict=True))
