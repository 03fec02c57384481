"""Provides the Keras data adapter of this rank's part of each batch.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter
from keras.src.trainers.data_adapters.torch_data_loader_adapter import TorchDataLoaderAdapter

from jupyter_ddl.auto_distribution.shards.batch_agreement import BatchAgreement
from jupyter_ddl.auto_distribution.shards.shard_bounds import Place
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import BACKEND, JAX, TENSORFLOW, hvd
from jupyter_ddl.training.fit.first_batches import ALL_FULL, UNKNOWN, Known
from jupyter_ddl.training.requirements import require_horovod


class Parts(DataAdapter):
    """This rank's part of each batch of one process, as a Keras data adapter: pass it as `x`.

    Attributes:
        agreement: by which the ranks compare their batches.

    Args:
        whole: Keras's adapter of the data of one process.
        place: which part is this rank's.
        steps: batches that are taken in an epoch, where they are counted.
        keeps_order: arrays are shuffled as by Keras, alike in each epoch where a random seed is set.
    """

    def __init__(self, whole: Any, place: Place, steps: int | None = None, *, keeps_order: bool = True) -> None:
        self._whole = whole
        self._place = place
        self._steps = steps
        self._keeps_order = keeps_order
        self._dataset: Any = None
        self.agreement = BatchAgreement()

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of this rank's parts."""
        from jupyter_ddl.auto_distribution.shards import datasets

        self._dataset = datasets.of_parts(
            self._whole,
            self._place,
            self.agreement,
            # Reshuffled in each pass; or as Keras shuffles.
            is_fresh=bool(self._whole_shuffles() and not self._keeps_order),
            is_endless=self._is_endless(),
        )
        return self._dataset

    def get_torch_dataloader(self) -> Any:
        """Return what gives this rank's parts to Keras on PyTorch: Keras's own order is another in each pass."""
        from jupyter_ddl.auto_distribution.shards import loaders

        # Of a program's own DataLoader always the same one, whose workers may persist; of others a pass is used up.
        if self._dataset is None or not isinstance(self._whole, TorchDataLoaderAdapter):
            whole = self._whole.get_torch_dataloader()
            self._dataset = loaders.of_parts(whole, self._place, self.agreement, is_endless=self._is_endless())
        return self._dataset

    def get_jax_iterator(self) -> Any:
        """Return what gives this rank's parts to Keras on JAX, in one pass."""
        from jupyter_ddl.auto_distribution.shards import loaders

        whole = self._whole.get_jax_iterator()
        return iter(loaders.of_parts(whole, self._place, self.agreement, is_endless=self._is_endless()))

    def _whole_shuffles(self) -> Any:
        return getattr(self._whole, "_shuffle", False)

    def _is_endless(self) -> bool:
        return self._steps is not None and self._whole.num_batches is None

    def end_epoch(self, taken: int) -> None:
        """Make as many passes over the data as one process and as the other ranks: each pass reshuffles.

        At the end of an epoch whose batches are counted, Keras begins a pass that it does not use. It does not where
        the batches end before their number, as on a rank that has no part of the last one.
        Source: keras 3.15, src/trainers/epoch_iterator.py, _enumerate_iterator

        Args:
            taken: batches of this rank in the epoch.
        """
        if BACKEND != JAX and self.samples is None and self._steps is None and taken < (self._whole.num_batches or 0):
            iter(self._dataset if BACKEND == TENSORFLOW else self.get_torch_dataloader())

    @property
    def samples(self) -> int | None:
        """The samples of one process's epoch, where they are known."""
        if not isinstance(self._whole, ArrayDataAdapter):
            return None
        samples: int = self._whole._num_samples
        return samples

    @property
    def num_batches(self) -> int | None:
        """This rank's batches, where their number is known."""
        if self.samples is None:
            whole: int | None = self._whole.num_batches
            return whole
        full, last = divmod(self.samples, int(self._whole.batch_size))
        return full + (self._place.length(last) > 0)

    @property
    def batch_size(self) -> int | None:
        """The samples of this rank in a full batch."""
        return None if self._whole.batch_size is None else self._place.length(self._whole.batch_size)

    @property
    def has_partial_batch(self) -> Any:
        """Whether the last batch is smaller; None where not known."""
        return self._whole.has_partial_batch

    @property
    def partial_batch_size(self) -> Any:
        """The samples of this rank in the last batch."""
        last = self._whole.partial_batch_size
        return last and self._place.length(last)

    def on_epoch_begin(self) -> None:
        """Forward the call: a PyDataset starts its processes."""
        self._whole.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Forward the call: a PyDataset shuffles."""
        self._whole.on_epoch_end()

    def known(self, steps: int) -> Known:
        """Return what this rank knows of its batches.

        Args:
            steps: that are counted in an epoch, or UNKNOWN.
        """
        if self.samples is None:
            is_full = isinstance(self._whole, TFDatasetAdapter) and self.batch_size is not None
            if is_full:  # a dataset whose specification says a size has no smaller batch
                count = self._whole.num_batches
                return Known(
                    ALL_FULL, self.batch_size or UNKNOWN, steps if count is None or steps != UNKNOWN else count
                )
            # The last batch may have no sample for some of the ranks.
            return Known(UNKNOWN, UNKNOWN, steps if self._whole.num_batches is None else UNKNOWN)
        assert self.batch_size is not None
        full, last = divmod(self.samples, self._whole.batch_size)
        samples = full * self.batch_size + self._place.length(last)
        if 0 < last < self._place.size:
            return Known(samples, self.batch_size, UNKNOWN)
        return Known(samples, self.batch_size, steps if steps != UNKNOWN else full + (last > 0))


def parts(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int = 32,
    shuffle: bool = True,
    keeps_order: bool = False,
) -> Any:
    """Return this rank's part of each batch that one process would train on: pass it to `fit` or `evaluate` as `x`.

    Args:
        x: arrays, a tf.data.Dataset, a keras.utils.PyDataset or a generator, as `fit` takes them.
        y: the targets, where x holds none.
        sample_weight: a weight for each sample.
        batch_size: of all ranks together; a dataset, a PyDataset or a generator has its own.
        shuffle: arrays are reshuffled in each epoch. All ranks must have set the same random seed before.
        keeps_order: arrays are shuffled as by Keras in one process: alike in each epoch where a seed is set.

    Raises:
        InvalidInput: Horovod is not initialised; there are fewer samples in a batch than ranks.

    Example:
        >>> history = model.fit(data.parts(x, y, batch_size=16), verbose=0)  # 8 samples a step on each of 2 ranks
    """
    require_horovod("jupyter_ddl.data.parts")
    whole = data_adapters.get_data_adapter(x, y, sample_weight, batch_size=batch_size, shuffle=shuffle)
    place = Place(hvd.size(), hvd.rank())
    require_room(whole, place)
    return Parts(whole, place, keeps_order=keeps_order)


def require_room(whole: Any, place: Place) -> None:
    """Raise if a batch has fewer samples than there are ranks, or all data have.

    Raises:
        InvalidInput: it has.
    """
    if whole.batch_size is not None and whole.batch_size < place.size:
        raise InvalidInput(
            "A batch must have at least one sample for each rank.",
            f"batches of {whole.batch_size}, {place.size} ranks",
            "Pass a larger batch_size, or use fewer ranks.",
        )
    if isinstance(whole, ArrayDataAdapter) and whole._num_samples < place.size:
        raise InvalidInput(
            "Each rank must have at least one sample to train on.",
            f"data of {whole._num_samples}, {place.size} ranks",
            "Use fewer ranks.",
        )
