"""Divides the batches of a DataLoader among the ranks.

Runs on: every rank.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from jupyter_ddl.auto_distribution.torch_loops import agreement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class DividedBatches:
    """A rank's part of the batches that a sampler gives.

    Args:
        batches: the sampler: lists of indices, the same on all ranks.
        rank: this rank.
        size: the number of ranks.
        is_global: a batch is that of all ranks together; else each rank takes a whole one, and so as many at a time.

    Attributes:
        weights: of each batch that was given, how much its rows count: 1 where all ranks have as many.
    """

    def __init__(self, batches: Iterable[Any], rank: int, size: int, *, is_global: bool) -> None:
        self._batches = batches
        self._rank = rank
        self._size = size
        self._is_global = is_global
        self.weights: list[float] = []

    def __len__(self) -> int:
        """Return how many batches this rank gets at most."""
        count = len(self._batches)  # type: ignore[arg-type]
        return count if self._is_global else -(-count // self._size)

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield this rank's rows of each batch. Collective: every rank must begin it."""
        self.weights.clear()
        agreement.same_random_numbers()
        batches = iter(self._batches)
        taken = 1 if self._is_global else self._size
        is_first = True
        while together := [list(batch) for batch in islice(batches, taken)]:
            rows = list(chain.from_iterable(together))
            if is_first:
                is_first = False
                agreement.check_same_batches(rows)
                agreement.other_noise(self._rank)
            mine = self._part_of(together, rows)
            # Of rows that all ranks take, each counts once: the mean of equal gradients is one of them.
            self.weights.append(1.0 if len(rows) < self._size else self._size * len(mine) / len(rows))
            yield mine

    def _part_of(self, together: list[list[Any]], rows: list[Any]) -> list[Any]:
        """Return this rank's rows of some batches that are one step; all of them where they are fewer than ranks."""
        if len(rows) < self._size:
            return rows
        if len(together) == self._size:
            return together[self._rank]
        return rows[self._rank :: self._size]


class Counted:
    """A DataLoader's iterator that notes the weight of the batch that it gave last.

    Args:
        iterator: the DataLoader's own.
        batches: those that it draws from.
        note: called with the weight of a batch before the program gets it.
    """

    def __init__(self, iterator: Iterator[Any], batches: DividedBatches, note: Callable[[float], None]) -> None:
        self._iterator = iterator
        self._batches = batches
        self._note = note
        self._given = 0

    def __iter__(self) -> Counted:
        return self

    def __len__(self) -> int:
        return len(self._batches)

    def __next__(self) -> Any:
        batch = next(self._iterator)
        # Workers draw ahead: the sampler may be some batches further.
        self._note(self._batches.weights[self._given])
        self._given += 1
        return batch
