"""Commits the state, and counts batches and epochs in it, during `fit`.

Their order in `fit` matters: those that count come before the one that commits.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import keras

from jupyter_ddl.errors import InvalidInput


class CommitStateCallback(keras.callbacks.Callback):
    """Commit the state after every `batches_per_commit` batches, and at the end of each epoch.

    Args:
        state: a KerasState.
        batches_per_commit: how many. A commit copies all weights to the host's memory.

    Raises:
        InvalidInput: `batches_per_commit` is below 1.

    Example:
        >>> state = hvd.elastic.KerasState(model, epoch=0)
        >>> commits = hvd.elastic.CommitStateCallback(state, batches_per_commit=10)
        >>> history = model.fit(x, y, callbacks=[commits], verbose=0)
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        if batches_per_commit < 1:
            raise InvalidInput("batches_per_commit must be at least 1.", batches_per_commit, "Pass e.g. 100.")
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Begin to count, on all ranks alike."""
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Commit if it is due."""
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Commit."""
        self.commit()

    def commit(self) -> None:
        """Commit the state."""
        self.state.commit()


class UpdateBatchStateCallback(keras.callbacks.Callback):
    """Keep the number of the batch in `state.batch`: counted from 0, and 0 between epochs.

    Where training resumes from a commit with a `state.batch` above 0, the first epoch is shorter by that many batches,
    if Keras knows how many an epoch has.

    Args:
        state: a KerasState with the attribute `batch`.

    Example:
        >>> state = hvd.elastic.KerasState(model, batch=0)
        >>> history = model.fit(x, y, callbacks=[hvd.elastic.UpdateBatchStateCallback(state)], verbose=0)
        >>> state.batch
        0
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._first = 0
        self._cut = _EpochCut()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Note where in the epoch training resumes."""
        self._first = self.state.batch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Count, and end an epoch that began in the middle."""
        self.state.batch = self._first + batch
        steps = (self.params or {}).get("steps")
        if self._first and steps and self.state.batch + 1 >= steps and not self.model.stop_training:
            self.model.stop_training = self._cut

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Reset the count, and continue with the next epoch."""
        self.state.batch = self._first = 0
        # Unless a callback has asked meanwhile to end the training.
        if self.model is not None and self.model.stop_training is self._cut:
            self.model.stop_training = False


class UpdateEpochStateCallback(keras.callbacks.Callback):
    """Keep the number of completed epochs in `state.epoch`, over all calls of `fit` that resume from a commit.

    These may begin to count at 0, or at `initial_epoch=state.epoch`.

    Args:
        state: a KerasState with the attribute `epoch`.

    Example:
        >>> state = hvd.elastic.KerasState(model, epoch=0)
        >>> counted = hvd.elastic.UpdateEpochStateCallback(state)
        >>> history = model.fit(x, y, epochs=2, callbacks=[counted], verbose=0)
        >>> state.epoch
        2
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch
        self._first: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Note how many epochs are done."""
        self.initial_epoch = self.state.epoch
        self._first = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Note at which number Keras begins to count."""
        if self._first is None:
            self._first = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Count."""
        self.state.epoch = self.initial_epoch + epoch - (self._first or 0) + 1


class _EpochCut:
    """The value of `model.stop_training` to end one epoch and not the training; true, as any object is."""
