"""Compares the ranks' data during `fit`, as Keras callbacks.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import keras

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.shards.adapter import Parts
    from jupyter_ddl.auto_distribution.shards.whole_batches import Shares


class Comparable(Protocol):
    """What this rank noted of its data."""

    def require_same(self) -> None:
        """Raise InvalidInput, on every rank, where the ranks noted different things. Collective."""


class CompareAfterFirstStep(keras.callbacks.Callback):
    """Compares what the ranks noted after the first step.

    Args:
        noted: by this rank.
    """

    def __init__(self, noted: Comparable) -> None:
        super().__init__()
        self._noted = noted
        self._has_compared = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Compare once.

        Raises:
            InvalidInput: they differ; on every rank.
        """
        if not self._has_compared:
            self._has_compared = True
            self._noted.require_same()


class CompareAfterEpochs(CompareAfterFirstStep):
    """Compares what the ranks noted after the first step of the training, and after each epoch.

    Not after the first step of a later epoch: a rank may have no batch left then.
    """

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare.

        Raises:
            InvalidInput: they differ; on every rank.
        """
        self._noted.require_same()


class CompareShares(CompareAfterFirstStep):
    """Compares the ranks' first batches after the first step of the training, and after each epoch.

    Args:
        shares: what this rank trains on.
    """

    def __init__(self, shares: Shares) -> None:
        super().__init__(shares)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Compare.

        Raises:
            InvalidInput: they differ; on every rank.
        """
        self._noted.require_same()


class CompareParts(CompareAfterFirstStep):
    """Compares the ranks' first batches after the first step of each epoch, and keeps their passes in step.

    Args:
        parts: what this rank trains on.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.agreement)
        self._parts = parts
        self._taken = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare again in this epoch."""
        self._taken = 0
        self._has_compared = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count the batch, and compare once.

        Raises:
            InvalidInput: they differ; on every rank.
        """
        self._taken = batch + 1
        super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Pass on how many batches this rank had."""
        self._parts.end_epoch(self._taken)
