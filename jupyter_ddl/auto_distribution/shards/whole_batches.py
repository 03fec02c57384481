"""Gives a rank every Nth whole batch of one process, for evaluation.

A batch stays whole, so that everything computed from it is what one process computes: a metric that counts batches, a
loss that compares the samples of a batch, a graph with its adjacency matrix.

Runs on: every rank.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.data_adapter_utils import get_jax_iterator, get_torch_dataloader
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.torch_data_loader_adapter import TorchDataLoaderAdapter

from jupyter_ddl.auto_distribution.shards.batch_agreement import BatchAgreement
from jupyter_ddl.auto_distribution.shards.generators import bounded
from jupyter_ddl.training.fit.first_batches import UNKNOWN, Known

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
        self._loader: Any = None
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
        from jupyter_ddl.auto_distribution.shards import datasets

        return datasets.of_shares(self._whole, self._place, self._steps, self.total, self.agreement)

    def get_torch_dataloader(self) -> Any:
        """Return what gives this rank's batches to Keras on PyTorch."""
        from jupyter_ddl.auto_distribution.shards import loaders

        if self._loader is None or not isinstance(self._whole, TorchDataLoaderAdapter):
            whole = self._whole.get_torch_dataloader()
            self._loader = loaders.of_shares(whole, self._place, self._steps, self.agreement)
        return self._loader

    def get_jax_iterator(self) -> Any:
        """Return what gives this rank's batches to Keras on JAX, in one pass."""
        from jupyter_ddl.auto_distribution.shards import loaders

        return iter(loaders.of_shares(self._whole.get_jax_iterator(), self._place, self._steps, self.agreement))

    def first_batch(self) -> Any:
        """Return the first batch of one process, as an adapter of it alone."""
        whole = self._whole
        if isinstance(whole, GeneratorDataAdapter | PyDatasetAdapter):
            # A pass over them would read more, which a generator cannot undo.
            is_generator = isinstance(whole, GeneratorDataAdapter)
            return OneBatch(whole._first_batches[0] if is_generator else whole._standardize_batch(whole.py_dataset[0]))
        return FirstBatch(whole)

    def known(self, steps: int) -> Known:
        """Return what this rank knows of its batches.

        Args:
            steps: that are counted in an epoch, or UNKNOWN.
        """
        count = self.num_batches
        return Known(steps=steps if steps != UNKNOWN or count is None else count)

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


class OneBatch(DataAdapter):
    """A batch, as a Keras data adapter.

    Args:
        batch: a tuple or a dict of arrays.
    """

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of it."""
        import tensorflow as tf

        return tf.data.Dataset.from_tensors(self._batch)

    def get_torch_dataloader(self) -> Any:
        """Return what gives it to Keras on PyTorch."""
        return get_torch_dataloader([self._batch])

    def get_jax_iterator(self) -> Any:
        """Return what gives it to Keras on JAX."""
        return get_jax_iterator([self._batch])

    @property
    def num_batches(self) -> int:
        """One."""
        return 1

    @property
    def batch_size(self) -> None:
        """Not said."""


class FirstBatch(OneBatch):
    """The first batch of a pass over data, as a Keras data adapter.

    Args:
        whole: Keras's adapter of the data.
    """

    def __init__(self, whole: Any) -> None:
        super().__init__(None)
        self._whole = whole

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of it."""
        return self._whole.get_tf_dataset().take(1)

    def get_torch_dataloader(self) -> Any:
        """Return what gives it to Keras on PyTorch."""
        return itertools.islice(self._whole.get_torch_dataloader(), 1)

    def get_jax_iterator(self) -> Any:
        """Return what gives it to Keras on JAX."""
        return itertools.islice(self._whole.get_jax_iterator(), 1)
