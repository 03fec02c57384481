"""Gives Keras on PyTorch and JAX this rank's part of each batch, or its whole batches, from those of one process.

Where batches are drawn by row numbers, as of arrays and of a program's own map-style DataLoader, a rank reads only its
rows: the numbers are divided. Otherwise each rank makes the whole batch, and keeps its part. All ranks draw their
orders from like random states, as often as one process does.

Runs on: every rank, where Keras is on PyTorch or JAX.
"""

from __future__ import annotations

import copy
import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from jupyter_ddl.auto_distribution.shards.slices import sliced
from jupyter_ddl.auto_distribution.shards.texts import REMEDY, RULE, TOO_SMALL
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jupyter_ddl.auto_distribution.shards.batch_agreement import BatchAgreement
    from jupyter_ddl.auto_distribution.shards.shard_bounds import Place


def of_parts(loader: Any, place: Place, agreement: BatchAgreement, *, is_endless: bool) -> Any:
    """Return what gives this rank's part of each batch; a last batch without one is left out.

    Args:
        loader: a DataLoader of one process's batches.
        place: which part is this rank's.
        agreement: notes the first batch of each pass.
        is_endless: it repeats, and steps are counted, so that no batch is the last.
    """
    if _draws_numbers(loader):
        return _drawing(loader, PartsOfNumbers(loader.batch_sampler, place, agreement, is_endless=is_endless))
    return PartsOfBatches(loader, place, agreement, is_endless=is_endless)


def of_shares(loader: Any, place: Place, steps: int | None, agreement: BatchAgreement | None) -> Any:
    """Return what gives every Nth whole batch.

    Args:
        loader: a DataLoader of one process's batches.
        place: whose batches are taken.
        steps: how many batches one process takes; None for all.
        agreement: notes the first batch; None for arrays, which are compared directly.
    """
    if _draws_numbers(loader):
        return _drawing(loader, EveryNth(loader.batch_sampler, place, steps, agreement))
    return EveryNth(loader, place, steps, agreement)


def checksum_of(batch: Any) -> int:
    """Return a number for a batch: of row numbers, or of arrays and tensors in any structure."""
    if isinstance(batch, list) and all(isinstance(number, int) for number in batch):
        return zlib.crc32(np.asarray(batch, np.int64).tobytes()) + 1
    found = 0
    for part in keras.tree.flatten(batch):
        if part is not None:
            array = ops.array(part) if ops.is_tensor(part) else np.asarray(part)
            found = zlib.crc32(repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes(), found)
    return found + 1


@dataclass(frozen=True)
class EveryNth:
    """Every Nth of what an iterable gives: batches, or the row numbers of batches."""

    whole: Any
    place: Place
    steps: int | None
    agreement: BatchAgreement | None

    def __len__(self) -> int:
        count = len(self.whole) if self.steps is None else min(len(self.whole), self.steps)
        return len(range(self.place.rank, count, self.place.size))

    def __iter__(self) -> Iterator[Any]:
        taken: Iterable[Any] = itertools.islice(self.whole, self.steps)
        if self.agreement is not None:
            taken = _noting(taken, self.agreement)
        return itertools.islice(taken, self.place.rank, None, self.place.size)


class PartsOfBatches:
    """This rank's part of each batch.

    Args:
        whole: gives batches of one process: structures of tensors.
        place: which part is this rank's.
        agreement: notes the first batch of each pass.
        is_endless: no batch is the last.
    """

    def __init__(self, whole: Any, place: Place, agreement: BatchAgreement, *, is_endless: bool) -> None:
        self._whole = whole
        self._place = place
        self._agreement = agreement
        self._is_endless = is_endless

    def __iter__(self) -> Iterator[Any]:
        # Begun now, as Keras begins it: PyTorch draws a seed for each pass, used or not.
        return self._parts_of(iter(self._whole))

    def _parts_of(self, batches: Iterator[Any]) -> Iterator[Any]:
        has_ended = False
        for batch in _noting(batches, self._agreement):
            start, stop = self._place.bounds(self._count_of(batch))
            if (stop == start and self._is_endless) or (stop > start and has_ended):
                raise InvalidInput(
                    "With --batch global each batch is divided among the ranks.",
                    f"a batch of {self._count_of(batch)} before the last one, {self._place.size} ranks",
                    TOO_SMALL,
                )
            has_ended = stop == start
            if not has_ended:
                yield self._part_of(batch, start, stop)

    def _count_of(self, batch: Any) -> int:
        shapes = [tuple(getattr(part, "shape", ())) for part in keras.tree.flatten(batch) if part is not None]
        counts = {shape[0] if shape else None for shape in shapes}
        if len(counts) != 1 or None in counts:
            shown = " and ".join(str(shape).replace(",)", ")") for shape in shapes)
            raise InvalidInput(RULE, f"a batch with parts of shapes {shown}", REMEDY)
        return int(counts.pop() or 0)

    def _part_of(self, batch: Any, start: int, stop: int) -> Any:
        return keras.tree.map_structure(lambda part: None if part is None else sliced(part, start, stop), batch)


class PartsOfNumbers(PartsOfBatches):
    """This rank's part of the row numbers of each batch: a batch sampler of PyTorch's."""

    def __len__(self) -> int:
        return len(self._whole)

    def _count_of(self, batch: Any) -> int:
        return len(batch)

    def _part_of(self, batch: Any, start: int, stop: int) -> Any:
        return list(batch)[start:stop]


def _draws_numbers(loader: Any) -> bool:
    kinds = type(getattr(loader, "dataset", None)).__mro__
    # Without importing PyTorch.
    is_iterable = any(one.__name__ == "IterableDataset" and one.__module__.startswith("torch.") for one in kinds)
    return getattr(loader, "batch_sampler", None) is not None and not is_iterable


def _drawing(loader: Any, sampler: Any) -> Any:
    """Return a DataLoader like another that draws the row numbers of its batches from another sampler."""
    own = copy.copy(loader)
    # PyTorch refuses to set them by `=`. Workers that persist are those of the program's own loader.
    vars(own).update(batch_sampler=sampler, _iterator=None)
    return own


def _noting(batches: Iterable[Any], agreement: BatchAgreement) -> Iterator[Any]:
    for number, batch in enumerate(batches):
        if number == 0:
            agreement.note(checksum_of(batch))
        yield batch
