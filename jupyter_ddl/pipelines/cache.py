"""Keeps a rank's elements after the first pass: in memory, in a ramdisk, or on this node's own disk.

Runs on: every rank.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.pipelines.owned_folders import own_folder
from jupyter_ddl.pipelines.storage import NVME, RAMDISK, Place, check_memory, find_place
from jupyter_ddl.protocol.number_texts import size

RAM = "ram"
_numbers = itertools.count()


@dataclass(frozen=True)
class Estimate:
    """How much a dataset would take.

    Attributes:
        element_bytes: of its first element.
        elements: how many it has; None where it does not say.
    """

    element_bytes: int
    elements: int | None

    @property
    def total_bytes(self) -> int | None:
        """The size of all elements, if each is as large as the first."""
        return None if self.elements is None else self.elements * self.element_bytes


def cache(ds: Any, where: str | os.PathLike[str] = RAM) -> Any:
    """Return the dataset with its elements kept from the first pass on, where this rank reads them fastest.

    Put it after what is slow and the same in each epoch (reading, decoding), and before `shuffle`, random augmentation,
    `batch` and `repeat`. The room is checked before: as many elements as the dataset says it has, each as large as its
    first. A file is this rank's own and goes when its process ends.

    Runs on: every rank. Not a collective.

    Args:
        ds: this rank's part of a tf.data.Dataset.
        where: "ram"; "ramdisk" (/mnt/global_ramdisk, /dev/shm); "nvme" ($SLURM_TMPDIR, $TMPDIR, /mnt/nvmeof: the first
            that is a disk of this node); or a folder.

    Raises:
        InvalidInput: there is no such place, not enough room, or no end to the dataset.

    Example:
        >>> ds = data.cache(tf.data.Dataset.from_tensor_slices((x, y)), "ram")
        >>> history = model.fit(ds.shuffle(64).batch(16), epochs=2, verbose=0)
    """
    _check_where(where)
    estimate = measured(ds)
    ranks_here, first_here = ranks_of_this_host()
    place = room(where, (estimate.total_bytes or 0) * ranks_here)
    if first_here:
        shown = "memory" if place.path is None else place.path
        print(f"Cache in {shown}, {size(place.free_bytes)} free: {_described(estimate)}, for each rank.")
    return kept_in(ds, place)


def room(where: str | os.PathLike[str], need_bytes: int) -> Place:
    """Return where there is room, for all ranks of this host together.

    Raises:
        InvalidInput: nowhere.
    """
    return check_memory(need_bytes) if where == RAM else find_place(where, need_bytes)


def kept_in(ds: Any, place: Place) -> Any:
    """Return the dataset with its elements kept in a place: in a file of their own, where that is a folder."""
    return ds.cache("" if place.path is None else str(own_folder(place.path) / f"elements-{next(_numbers)}"))


def measured(ds: Any) -> Estimate:
    """Return how much a dataset would take, from its first element, which is made for this.

    Raises:
        InvalidInput: it has no end.
    """
    count = int(ds.cardinality())
    if count == tf.data.INFINITE_CARDINALITY:
        raise InvalidInput(
            "A cache holds a whole pass over the data.", "a dataset without end", "Call cache before repeat."
        )
    first_bytes = 0
    for element in ds.take(1):
        first_bytes = sum(_bytes_of(part) for part in tf.nest.flatten(element, expand_composites=True))
    return Estimate(first_bytes, count if count >= 0 else None)


def _described(estimate: Estimate) -> str:
    if estimate.total_bytes is None:
        return f"{size(estimate.element_bytes)} an element, their number is not known"
    return size(estimate.total_bytes)


def _bytes_of(tensor: Any) -> int:
    if tensor.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(np.prod(tensor.shape)) * int(tensor.dtype.size)


def _check_where(where: str | os.PathLike[str]) -> None:
    known = where in (RAM, RAMDISK, NVME)
    if not known and not (isinstance(where, os.PathLike) or (isinstance(where, str) and os.sep in where)):
        raise InvalidInput(
            'where is "ram", "ramdisk", "nvme" or a folder.', repr(where), 'Write a folder here as "./folder".'
        )


def ranks_of_this_host() -> tuple[int, bool]:
    """Return how many ranks share this host, and whether this is the first of them."""
    try:
        import horovod.tensorflow as hvd
    except ImportError:
        return 1, True
    if not hvd.is_initialized():
        return 1, True
    return hvd.local_size(), hvd.local_rank() == 0
