"""Lets ModelCheckpoint and other callbacks take their old arguments."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import wrap_method

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# A name that Keras 3 takes, for its check; the user's is put back after it.
_GOOD_NAME = {True: "a.weights.h5", False: "a.h5"}
_TENSORBOARD = ("write_grads", "batch_size", "embeddings_layer_names", "embeddings_data")


def patch_checkpoint_period(keras: ModuleType) -> None:
    """Have ModelCheckpoint take `period`."""
    wrap_method(keras.callbacks.ModelCheckpoint, "__init__", _initialise_checkpoint, ("period",))
    wrap_method(keras.callbacks.ModelCheckpoint, "_save_model", _save)


def patch_tensorboard(keras: ModuleType) -> None:
    """Have TensorBoard take what it no longer writes."""
    wrap_method(keras.callbacks.TensorBoard, "__init__", _initialise_tensorboard, _TENSORBOARD)


def patch_epsilon(keras: ModuleType) -> None:
    """Have ReduceLROnPlateau take `epsilon`."""
    wrap_method(keras.callbacks.ReduceLROnPlateau, "__init__", _initialise_plateau, ("epsilon",))


def patch_callback_model(keras: ModuleType) -> None:
    """Let a user's callback set `self.model`."""
    stock = keras.callbacks.Callback.model
    if isinstance(stock, property) and stock.fset is None:
        patch(keras.callbacks.Callback, "model", _set_model, Layer.LEGACY, _with_setter)


def _with_setter(stock: property, ours: Callable[..., None]) -> property:
    return property(stock.fget, ours)


def _initialise_checkpoint(
    stock: Callable[..., None], self: Any, *args: Any, period: int | None = None, **kwargs: Any
) -> None:
    for name in ("load_weights_on_restart", "options"):
        if kwargs.pop(name, None):
            say("ModelCheckpoint's other arguments")
    call = inspect.signature(stock).bind(self, *args, **kwargs)
    path = str(call.arguments["filepath"])
    weights_only = bool(call.arguments.get("save_weights_only"))
    takes = path.endswith(".weights.h5") if weights_only else path.endswith((".keras", ".h5"))
    if not takes:
        say("weights file name" if weights_only else "model file name")
        call.arguments["filepath"] = _GOOD_NAME[weights_only]
    stock(*call.args, **call.kwargs)
    self.filepath = path
    self._period = 1
    self._epochs_unsaved = 0
    if period is not None:
        say("period")
        self._period = period


def _save(stock: Callable[..., None], self: Any, epoch: int, batch: int | None, logs: Any) -> None:
    """Save, at the end of every `period`th epoch."""
    if batch is None and getattr(self, "_period", 1) > 1:
        self._epochs_unsaved += 1
        if self._epochs_unsaved < self._period:
            return
        self._epochs_unsaved = 0
    stock(self, epoch, batch, logs)


def _initialise_tensorboard(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    if any(kwargs.pop(name, None) is not None for name in _TENSORBOARD):
        say("TensorBoard's other arguments")
    for name in _TENSORBOARD:
        kwargs.pop(name, None)
    stock(self, *args, **kwargs)


def _initialise_plateau(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    # Keras 3 would silently take it, and use its own min_delta.
    if "epsilon" in kwargs:
        say("epsilon")
        kwargs["min_delta"] = kwargs.pop("epsilon")
    stock(self, *args, **kwargs)


def _set_model(self: Any, model: Any) -> None:
    say("callback.model")
    self._model = model
