"""The Keras callback that compares the ranks' batches after the first step of each epoch.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.shards.adapter import Parts


class AlikeData(keras.callbacks.Callback):
    """Compares what the ranks noted, after the first step of each epoch, and sees to it that it stays alike.

    Args:
        parts: what this rank trains on.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._parts = parts
        self._taken = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Compare in this epoch."""
        self._taken = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare once.

        Raises:
            InvalidInput: the ranks have different batches; on every rank.
        """
        is_first = self._taken == 0
        self._taken = batch + 1
        if not is_first:
            return
        self._parts.likeness.require_same()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Let the data know how many batches this rank had."""
        self._parts.end_epoch(self._taken)
