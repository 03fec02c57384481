"""Counts the samples that this rank saw in an epoch, for averages over samples and not over ranks.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import keras


@dataclass
class Seen:
    """The samples of one epoch on this rank; None where they were not counted."""

    training: float | None = None
    validation: float | None = None


_seen: WeakKeyDictionary[Any, Seen] = WeakKeyDictionary()


def samples_seen(model: Any) -> Seen:
    """Return how many samples this rank saw in the model's last epoch, at its end."""
    return _seen.get(model, Seen())


class SamplesSeen(keras.callbacks.Callback):
    """Reads what Keras counts for the mean of the loss, before Keras resets it."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Forget the last epoch."""
        _seen[self.model] = Seen()

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Read the training's count: validation follows, in the same counter."""
        _seen[self.model].training = self._count()

    def on_test_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Read the validation's count."""
        _seen[self.model].validation = self._count()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Read the training's count, where there was no validation."""
        seen = _seen[self.model]
        if seen.validation is None:
            seen.training = self._count()

    def _count(self) -> float | None:
        # The samples that went into the loss. Source: keras 3.15, src/backend/tensorflow/trainer.py, train_step
        tracker = getattr(self.model, "_loss_tracker", None)
        return None if tracker is None else float(tracker.count.numpy())
