"""Reports what `fit` was given: batch size, epochs, steps, optimizer, learning rate, model and loss.

And the folder that its TensorBoard callback writes to, which `%ddl tensorboard` shows.

Runs on: every rank.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.meter import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# Keras's own, where arrays are given without one. Source: keras 3.12, src/trainers/trainer.py, fit's docstring
_DEFAULT_BATCH_SIZE = 32
_MOST_CHARACTERS = 200


class GivenParameters(keras.callbacks.Callback):
    """Reports when the training begins: Keras then knows how many steps an epoch has.

    How many parameters the model has is reported after an epoch: before its first step a model need not be built. Not
    after a step, for which Keras would wait.

    Args:
        arguments: of `fit`, by name.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        super().__init__()
        self._batch_size = batch_size(arguments.get("x"), arguments.get("batch_size"))
        self._epochs = arguments.get("epochs", 1)
        self._initial_epoch = arguments.get("initial_epoch") or None
        self._tensorboard = log_folder(arguments.get("callbacks"))

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Report them."""
        # A CallbackList of the user's own has none.
        known, optimizer = self.params or {}, self.model.optimizer
        rank_state.here().meter.parameters.log_fit(
            {
                "model": self.model.name,
                "batch_size": self._batch_size,
                "epochs": known.get("epochs", self._epochs),
                "initial_epoch": self._initial_epoch,
                "steps_per_epoch": known.get("steps"),
                "loss": loss_name(getattr(self.model, "loss", None)),
                "tensorboard": self._tensorboard,
                **({} if optimizer is None else of_optimizer(optimizer)),
            }
        )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Report the size of the model."""
        # Keras's count_params refuses subclasses that it takes for unbuilt.
        count = sum(math.prod(weight.shape) for weight in self.model.weights)
        rank_state.here().meter.parameters.log_fit({"model_parameters": count})


def batch_size(x: Any, given: Any) -> int | None:
    """Return the batch size on this rank; None where it is not known before the first batch.

    Args:
        x: the data that `fit` was given.
        given: its argument `batch_size`.
    """
    if given is not None:
        return given if isinstance(given, int) else None
    spec = getattr(x, "element_spec", None)
    first = next(iter(keras.tree.flatten(x if spec is None else spec)), None)
    shape = getattr(first, "shape", None)
    if spec is None:
        return _DEFAULT_BATCH_SIZE if shape is not None else None
    return shape[0] if shape is not None and shape.rank else None


def log_folder(callbacks: Any) -> str | None:
    """Return the folder that a TensorBoard callback writes to; None where there is none.

    Args:
        callbacks: as `fit` was given them: one, several, or Keras's list.
    """
    given = getattr(callbacks, "callbacks", callbacks)
    for callback in given if isinstance(given, list | tuple) else [given]:
        if isinstance(callback, keras.callbacks.TensorBoard):
            return str(Path(callback.log_dir).absolute())
    return None


def of_optimizer(optimizer: Any) -> dict[str, Any]:
    """Return an optimizer's class, and its learning rate now, with the schedule's class where it has one."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    schedule = getattr(inner, "_learning_rate", None)
    is_schedule = isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule)
    try:
        # A float32: 0.01, and not 0.009999999776482582.
        rate = float(f"{number_of(inner.learning_rate):.7g}")
    except (TypeError, ValueError, AttributeError):
        # A custom optimizer may have none.
        rate = None
    # `__class__`, and not `type`: a distributed optimizer has the name of the plain one.
    return {
        "optimizer": inner.__class__.__name__,
        "learning_rate": rate,
        "learning_rate_schedule": type(schedule).__name__ if is_schedule else None,
    }


def loss_name(loss: Any) -> str | None:
    """Return the name of what `compile` was given as loss, of several their names; None where there is none."""
    if isinstance(loss, str):
        return loss[:_MOST_CHARACTERS]
    if isinstance(loss, dict):
        loss = list(loss.values())
    if isinstance(loss, list | tuple):
        return ", ".join(filter(None, map(loss_name, loss)))[:_MOST_CHARACTERS] or None
    name = getattr(loss, "name", None) or getattr(loss, "__name__", None)
    return name[:_MOST_CHARACTERS] if isinstance(name, str) else None
