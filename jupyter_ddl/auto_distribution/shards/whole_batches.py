"""Gives a rank every Nth whole batch of one process, for evaluation.

A batch stays whole, so that everything computed from it is what one process computes: a metric that counts batches, a
loss that compares the samples of a batch, a graph with its adjacency matrix.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from jupyter_ddl.auto_distribution.shards import rows
from jupyter_ddl.auto_distribution.shards.batch_agreement import BatchAgreement
from jupyter_ddl.auto_distribution.shards.generators import bounded

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.shards.shard_bounds import Place


class Shares(DataAdapter):
    """The batches rank, rank + size, ... of one process, as a Keras data adapter: pass it as `x`.

    Attributes:
        agreement: by which the ranks compare the first batch; None for arrays, which are compared directly.

    Args:
        whole: Keras's adapter of the data of one process.
        place: whose batches they are.
        steps: how many batches one process takes; None for all of them.
    """

    def __init__(self, whole: Any, place: Place, steps: int | None = None) -> None:
        self._whole = whole
        self._place = place
        self._steps = steps
        if isinstance(whole, GeneratorDataAdapter):
            bounded(whole, steps)
        self.agreement = None if isinstance(whole, ArrayDataAdapter) else BatchAgreement()

    def require_same(self) -> None:
        """Raise where the ranks had different first batches. Collective: every rank must call this, after the pass.

        Raises:
            InvalidInput: they had; on every rank.
        """
        if self.agreement is not None:
            self.agreement.require_same("data of evaluate and validation")

    def finish(self) -> None:
        """Do nothing."""

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of this rank's batches."""
        if self.agreement is None and rows.can_read_rows(self._whole._inputs):
            return rows.dataset(self._whole._inputs, self._row_numbers())
        made = self._whole.get_tf_dataset()
        made = made if self._steps is None else made.take(self._steps)
        made = made if self.agreement is None else self.agreement.noting(made)
        return made.shard(self._place.size, self._place.rank).prefetch(tf.data.AUTOTUNE)

    def first_batch(self) -> Any:
        """Return the first batch of one process, as a dataset of it alone."""
        whole = self._whole
        if isinstance(whole, GeneratorDataAdapter | PyDatasetAdapter):
            # A dataset of them would read more, which a generator cannot undo.
            is_generator = isinstance(whole, GeneratorDataAdapter)
            first = whole._first_batches[0] if is_generator else whole._standardize_batch(whole.py_dataset[0])
            return tf.data.Dataset.from_tensors(first)
        return whole.get_tf_dataset().take(1)

    @property
    def total(self) -> int | None:
        """The batches that one process takes; None where their number is not known."""
        count: int | None = self._whole.num_batches
        if count is None or count == float("inf"):
            # A generator may end before them; an endless dataset is limited by them.
            return None
        return count if self._steps is None else min(count, self._steps)

    @property
    def num_batches(self) -> int | None:
        """This rank's batches; None where their number is not known."""
        return None if self.total is None else len(range(self._place.rank, self.total, self._place.size))

    @property
    def batch_size(self) -> int | None:
        """The samples of a full batch."""
        size: int | None = self._whole.batch_size
        return size

    @property
    def has_partial_batch(self) -> Any:
        """Whether the last batch is smaller; None where not known."""
        return self._whole.has_partial_batch

    @property
    def partial_batch_size(self) -> Any:
        """The samples of the last batch."""
        return self._whole.partial_batch_size

    def on_epoch_begin(self) -> None:
        """Forward the call: a PyDataset starts its processes."""
        self._whole.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Forward the call: a PyDataset shuffles."""
        self._whole.on_epoch_end()

    def _row_numbers(self) -> Any:
        """Return a dataset of the row numbers of this rank's batches."""
        assert self.total is not None
        size, samples = int(self._whole.batch_size), int(self._whole._num_samples)

        def of_batch(index: Any) -> Any:
            numbers = tf.range(index * size, tf.minimum((index + 1) * size, samples))
            # Of a known size where it is, as Keras has it.
            return numbers if samples % size else tf.ensure_shape(numbers, [size])

        return tf.data.Dataset.range(self._place.rank, self.total, self._place.size).map(of_batch)
