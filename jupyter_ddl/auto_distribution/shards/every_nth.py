"""Gives each rank every Nth batch of a PyDataset.

Runs on: every rank.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import keras
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from jupyter_ddl.auto_distribution.shards.contents import Contents
from jupyter_ddl.auto_distribution.shards.shared_draws import SharedDraws
from jupyter_ddl.auto_distribution.shards.whole_batches import OneBatch
from jupyter_ddl.training.fit.first_batches import UNKNOWN, Known

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jupyter_ddl.auto_distribution.shards.shard_bounds import Place


class _OwnBatches(keras.utils.PyDataset):
    """This rank's batches of a PyDataset: as many as another's, or one more.

    `EveryNth` begins and ends its epochs.
    """

    def __init__(self, whole: Any, place: Place, steps: int | None) -> None:
        super().__init__(
            workers=whole.workers,
            use_multiprocessing=whole.use_multiprocessing,
            max_queue_size=whole.max_queue_size,
        )
        self._whole = whole
        self._place = place
        self._steps = steps
        # A thread of tf.data may read ahead while an epoch ends. Keras stops its own workers before.
        is_read_by_workers = whole.workers > 1 or (whole.workers > 0 and whole.use_multiprocessing)
        self.lock: AbstractContextManager[Any] = nullcontext() if is_read_by_workers else threading.Lock()

    @property
    def num_batches(self) -> int | None:
        """This rank's batches; None where the PyDataset has no end."""
        total = self.total
        return total if total is None else self._place.length(total)

    @property
    def total(self) -> int | None:
        """The batches that one process takes; None where the PyDataset has no end."""
        whole: int | None = self._whole.num_batches
        if whole is None or self._steps is None:
            return whole if self._steps is None else self._steps
        return min(whole, self._steps)

    def __getitem__(self, index: int) -> Any:
        """Return one of them."""
        with self.lock:
            return self._whole[index * self._place.size + self._place.rank]


class EveryNth(PyDatasetAdapter):
    """Keras's adapter of every Nth batch of a PyDataset, which all ranks shuffle alike: pass it as `x`.

    Collective: every rank must make one, in the same order.

    Attributes:
        contents: what the ranks compare.

    Args:
        whole: the PyDataset of one process.
        place: whose batches they are.
        steps: how many batches of the whole are taken; None for all.
        class_weight: by class, as `fit` takes it.
        shuffle: Keras takes a rank's batches in another order in each epoch.
    """

    def __init__(
        self,
        whole: Any,
        place: Place,
        steps: int | None = None,
        *,
        class_weight: Any = None,
        shuffle: bool = False,
    ) -> None:
        own = _OwnBatches(whole, place, steps)
        super().__init__(own, class_weight=class_weight, shuffle=shuffle)
        self._whole = whole
        self._own = own
        self._rank = place.rank
        self._draws = SharedDraws(whole)
        self._is_apart = False
        self.contents = Contents(whole)

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of this rank's batches. The first are made for it, to see their shapes."""
        if self.num_batches == 0:
            return self.first_batch().get_tf_dataset().take(0)
        with self._draws.set_apart(self._rank):
            return super().get_tf_dataset()

    def get_torch_dataloader(self) -> Any:
        """Return what gives this rank's batches to Keras on PyTorch. The first is made once more, to see what draws."""
        return () if self._is_empty() else super().get_torch_dataloader()

    def get_jax_iterator(self) -> Any:
        """Return what gives this rank's batches to Keras on JAX, in one pass."""
        return iter(()) if self._is_empty() else super().get_jax_iterator()

    def _is_empty(self) -> bool:
        """Return whether this rank has no batch; the first is made, once, to see what draws."""
        if self.num_batches == 0:
            return True
        if not self._is_apart:
            self._is_apart = True
            with self._draws.set_apart(self._rank):
                self._own[0]
        return False

    def first_batch(self) -> Any:
        """Return the first batch of one process, as an adapter of it alone."""
        return OneBatch(self._standardize_batch(self._whole[0]))

    @property
    def total(self) -> int | None:
        """The batches that one process takes; None where the PyDataset has no end."""
        return self._own.total

    def require_same(self) -> None:
        """Raise where the PyDatasets of the ranks hold different data. Collective: every rank must call this.

        Raises:
            InvalidInput: they do; on every rank.
        """
        self.contents.require_same()

    def on_epoch_begin(self) -> None:
        """Forward the call before Keras's workers start, so that an order made here holds for their first batch."""
        self._shuffle(self._whole.on_epoch_begin)
        super().on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Forward the call when Keras's workers have stopped."""
        super().on_epoch_end()
        self._shuffle(self._whole.on_epoch_end)

    def finish(self) -> None:
        """Leave the random states alike on all ranks."""
        self._draws.finish()

    def known(self, steps: int) -> Known:
        """Return what this rank knows of its batches.

        Args:
            steps: that are counted in an epoch, or UNKNOWN.
        """
        count = self.num_batches
        if steps != UNKNOWN or count is None or count == float("inf"):
            return Known(steps=steps)
        return Known(steps=int(count))

    def _shuffle(self, pass_on: Any) -> None:
        with self._own.lock, self._draws.used():
            self.contents.before_shuffle()
            pass_on()
            self.contents.after_shuffle()


class SameContents(keras.callbacks.Callback):
    """Compares the PyDatasets of the ranks before each epoch, and after it.

    Args:
        data: what this rank trains on.
    """

    def __init__(self, data: EveryNth) -> None:
        super().__init__()
        self._data = data

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Compare what the last epoch's end has made of them.

        Raises:
            InvalidInput: they differ; on every rank.
        """
        self._data.require_same()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare what this epoch's beginning has made of them.

        Raises:
            InvalidInput: they differ; on every rank.
        """
        self._data.require_same()
