"""The callbacks of one process, on several ranks: who runs them, in which order, and what comes besides.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from jupyter_ddl.training.auto import seeds
from jupyter_ddl.training.callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback

if TYPE_CHECKING:
    from collections.abc import Sequence

# They write files, or to a network: one rank is enough, and several would write over each other.
ON_FIRST_RANK = (
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
    own = [callback for callback in given if hvd.rank() == 0 or not isinstance(callback, ON_FIRST_RANK)]
    return [MovingStatistics(), MetricAverageCallback(), *own, *between, StartTogether()]


def first_rank_only(given: Sequence[Any]) -> list[str]:
    """Return the names of the callbacks that run on rank 0 only, each once."""
    return list(dict.fromkeys(type(callback).__name__ for callback in given if isinstance(callback, ON_FIRST_RANK)))


class StartTogether(BroadcastGlobalVariablesCallback):
    """Gives all ranks rank 0's weights, optimizer state and first epoch, and its own random numbers to each."""

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

    At the end of each epoch, before validation. Within an epoch each rank's batches go into its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_due = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Note that they have changed."""
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
    for i, weight in enumerate(statistics_of(model)):
        first = hvd.broadcast(weight.value, 0, name=f"statistics_{i}")
        # From rank 0's, so that what all ranks hold alike stays as it is to the last bit.
        difference = hvd.allreduce(weight.value - first, op=hvd.Average, name=f"statistics_difference_{i}")
        weight.assign(first + difference)


def statistics_of(model: Any) -> list[Any]:
    """Return the model's weights that are not trained by gradients, and are numbers that have a mean."""
    frozen = {id(variable) for layer in model._flatten_layers() for variable in layer._trainable_variables}
    return [
        weight
        for weight in model.non_trainable_weights
        if id(weight) not in frozen and tf.as_dtype(weight.dtype).is_floating
    ]
