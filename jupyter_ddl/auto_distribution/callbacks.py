"""Chooses the callbacks of each rank: which of the program's it runs, in which order, and which are added.

Runs on: every rank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from jupyter_ddl.auto_distribution.plan import printed
from jupyter_ddl.auto_distribution.step_settings import is_own
from jupyter_ddl.training import seeds
from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback

if TYPE_CHECKING:
    from collections.abc import Sequence

# They write files, or to a network: one rank is enough, and several would overwrite each other's output.
_ON_FIRST_RANK = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.RemoteMonitor,
    keras.callbacks.TensorBoard,
)


def arranged(given: Sequence[Any], *between: Any) -> list[Any]:
    """Return the callbacks of this rank.

    Metrics are averaged before the program's own callbacks read them, so that these decide alike on all ranks. The
    broadcast comes last: BackupAndRestore, on rank 0, has restored by then.

    Args:
        given: the program's own.
        *between: that come after them.
    """
    return [MovingStatistics(), MetricAverageCallback(), *of_this_rank(given), *between, StartTogether()]


def listed(given: Any) -> list[Any]:
    """Return what Keras takes as `callbacks`, as a list: that may be none, one, several or its own CallbackList."""
    if isinstance(given, keras.callbacks.CallbackList):
        return list(given.callbacks)
    return [] if given is None else keras.tree.flatten(given)


def of_this_rank(given: Sequence[Any]) -> list[Any]:
    """Return those of a program's callbacks that run on this rank."""
    return [callback for callback in given if hvd.rank() == 0 or not isinstance(callback, _ON_FIRST_RANK)]


def first_rank_only(given: Sequence[Any]) -> list[str]:
    """Return the names of the callbacks that run on rank 0 only, each once."""
    return list(dict.fromkeys(type(callback).__name__ for callback in given if isinstance(callback, _ON_FIRST_RANK)))


class StartTogether(BroadcastGlobalVariablesCallback):
    """Gives all ranks rank 0's weights, optimizer state and first epoch, and each rank its own random numbers."""

    def __init__(self) -> None:
        super().__init__(0)

    def on_train_begin(self, logs: Any = None) -> None:
        """Start together."""
        super().on_train_begin(logs)
        # BackupAndRestore sets it. Source: keras 3.15, src/callbacks/backup_and_restore.py
        self.model._initial_epoch = hvd.broadcast_object(self.model._initial_epoch, 0, name="initial_epoch")
        seeds.set_apart(self.model, hvd.rank())


class MovingStatistics(keras.callbacks.Callback):
    """Averages over the ranks what layers learn from the data themselves: BatchNormalization's moving averages.

    This happens at the end of each epoch, before validation. Within an epoch each rank's batches go into its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_due = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Note that they are about to change, on some rank at least: this one may have no batch."""
        self._is_due = True

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Average before the validation."""
        self._average()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Average before the program's callbacks save."""
        self._average()

    def _average(self) -> None:
        if self._is_due:
            self._is_due = False
            average_statistics(self.model)


def average_statistics(model: Any) -> None:
    """Set the statistics that layers keep to their means over the ranks. Collective: every rank must call this."""
    weights = statistics_of(model)
    if not weights:
        return
    # All in one vector: a collective costs about the same for one number as for thousands.
    own = ops.tensor(np.concatenate([weight.numpy().astype(np.float64).ravel() for weight in weights]))
    first = hvd.broadcast(own, 0, name="statistics")
    # As differences from rank 0's, so that values that are equal on all ranks stay equal to the last bit.
    means = ops.array(first + hvd.allreduce(own - first, op=hvd.Average, name="statistics_difference"))
    ends = np.cumsum([math.prod(weight.shape) for weight in weights])[:-1]
    names = _names_of_own(model)
    for weight, mean, of_first in zip(weights, np.split(means, ends), np.split(ops.array(first), ends), strict=True):
        weight.assign(keras.ops.cast(mean.reshape(weight.shape), weight.dtype))
        if id(weight) in names and (mean != of_first).any():
            printed().note(
                f"{names[id(weight)]} is set by the steps and not trained: each rank has its own, and their mean "
                "replaces them at each epoch's end. That is right for running averages, and wrong for samples, such "
                "as a queue of features: write such a program with Horovod, and hvd.allgather what goes in."
            )


def _names_of_own(model: Any) -> dict[int, str]:
    """Return what layers of the program's own, and the model, keep without a layer of Keras's, by the weights' id."""
    return {
        id(weight): f"{name} of {type(layer).__name__}"
        for layer in model._flatten_layers()
        if is_own(type(layer))
        for name, value in vars(layer).items()
        for weight in (value if isinstance(value, list) else [value])
        if isinstance(weight, keras.Variable)
    }


def statistics_of(model: Any) -> list[Any]:
    """Return the model's weights that are not trained by gradients, and are numbers that have a mean."""
    frozen = {id(variable) for layer in model._flatten_layers() for variable in layer._trainable_variables}
    return [
        weight
        for weight in model.non_trainable_weights
        if id(weight) not in frozen and keras.backend.is_float_dtype(weight.dtype)
    ] + [buffer for buffer in ops.buffers_of(model) if keras.backend.is_float_dtype(buffer.dtype)]
