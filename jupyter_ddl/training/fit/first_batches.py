"""Collects what the ranks know of each other's batches before the first step of a `fit`.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from enum import IntEnum
from typing import Any

import keras
import numpy as np

from jupyter_ddl.training.backends import hvd, ops

UNKNOWN = -1
# The samples of a dataset whose batches all have the size in its specification.
ALL_FULL = 0
KERAS_BATCH_SIZE = 32


class Cut(IntEnum):
    """How a model's last training ended on one rank."""

    NO = 0
    # An exception or an interrupt ended it, and the weights have not changed since.
    YES = 1
    # Likewise, but the program has set weights since.
    CHANGED_SINCE = 2


@dataclass(frozen=True)
class Known:
    """What one rank knows of its own batches; UNKNOWN where the data do not say.

    Attributes:
        samples: in an epoch; ALL_FULL where every batch has `size`.
        size: the samples of a batch.
        steps: the batches of an epoch.
    """

    samples: int = UNKNOWN
    size: int = UNKNOWN
    steps: int = UNKNOWN


@dataclass(frozen=True)
class Batches:
    """The batches of an epoch, on all ranks together.

    Attributes:
        are_alike: in each step every rank's batch has the same number of samples.
        may_end_early: a rank may have fewer batches than another.
        fewest: the batches of the rank that has fewest, as far as that is known, else 1.
        was_cut: the model's last training was interrupted on some rank, and no rank has changed the weights since.
    """

    are_alike: bool
    may_end_early: bool
    fewest: int = field(default=1, compare=False)
    was_cut: bool = field(default=False, compare=False)

    @property
    def all_have(self) -> int | None:
        """The batches of every rank, where all are known to have as many."""
        return None if self.may_end_early else self.fewest

    @classmethod
    def unknown(cls) -> Batches:
        """Return what is known of a step outside of `fit`: all ranks take it, with any number of samples."""
        return cls(are_alike=False, may_end_early=False)


def agree(arguments: dict[str, Any], process_set: Any, cut: Cut = Cut.NO) -> Batches:
    """Return what all ranks' data say.

    Collective: every rank of the process set must call this.

    Args:
        arguments: of this rank's `fit`, by name.
        process_set: the ranks that train together.
        cut: how the model's last training ended on this rank.
    """
    mine = np.array([(*astuple(_of_this_rank(arguments)), cut)], dtype=np.int64)
    everyone = ops.array(hvd.allgather(ops.tensor(mine), name="batches_of_the_fit", process_set=process_set))
    samples, sizes, steps, cuts = everyone.T
    same_steps = bool(steps[0] != UNKNOWN and (steps == steps[0]).all())
    known = samples[0] != UNKNOWN and sizes[0] != UNKNOWN
    alike = bool(known and (samples == samples[0]).all() and (sizes == sizes[0]).all())
    fewest = int(steps.min()) if (steps != UNKNOWN).all() else 1
    was_cut = bool((cuts == Cut.YES).any() and not (cuts == Cut.CHANGED_SINCE).any())
    return Batches(same_steps and alike, not same_steps, max(1, fewest), was_cut)


def _of_this_rank(arguments: dict[str, Any]) -> Known:
    data: Any = arguments.get("x")
    steps = arguments.get("steps_per_epoch") or UNKNOWN
    if is_dataset(data):
        return _of_dataset(data, steps)
    if isinstance(data, keras.utils.PyDataset):
        return Known(steps=steps if steps != UNKNOWN else _known(data.num_batches))
    if hasattr(data, "known"):
        # One of our own adapters: it divides the data itself.
        own: Known = data.known(steps)
        return own
    shape = getattr(first_part(data), "shape", None)
    if not shape:
        return Known(steps=steps)
    samples, size = int(shape[0]), arguments.get("batch_size") or KERAS_BATCH_SIZE
    return Known(samples, size, steps if steps != UNKNOWN else -(-samples // size))


def _of_dataset(dataset: Any, steps: int) -> Known:
    size = dataset_batch_size(dataset)
    if steps == UNKNOWN:
        count = int(dataset.cardinality())
        steps = count if count >= 0 else UNKNOWN  # negative: infinite, or it cannot tell
    return Known(steps=steps) if size is None else Known(ALL_FULL, size, steps)


def is_dataset(data: Any) -> bool:
    """Return whether data are a tf.data.Dataset, without importing TensorFlow."""
    return hasattr(data, "element_spec") and hasattr(data, "cardinality")


def is_loader(data: Any) -> bool:
    """Return whether data are a torch.utils.data.DataLoader, without importing PyTorch."""
    return any(
        f"{one.__module__}.{one.__name__}" == "torch.utils.data.dataloader.DataLoader" for one in type(data).__mro__
    )


def dataset_batch_size(dataset: Any) -> int | None:
    """Return the samples of each of a tf.data.Dataset's batches, where its specification says that."""
    first = keras.tree.flatten(dataset.element_spec)[0]
    # Of a sparse or ragged part the specification is none of a tensor's.
    is_dense = type(first).__name__ == "TensorSpec" and first.shape.rank
    size: int | None = first.shape[0] if is_dense else None
    return size


def first_part(data: Any) -> Any:
    """Return the first array of what Keras takes as x: an array, or a list, tuple or dict of them."""
    while isinstance(data, (list, tuple, dict)) and data:
        data = next(iter(data.values())) if isinstance(data, dict) else data[0]
    return data


def _known(number: Any) -> int:
    return UNKNOWN if number is None or number == float("inf") else int(number)
