"""Holds process sets, and how values are reduced, where no Horovod has them.

Runs on: every rank.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api.environment_ranks import rank, size


class Op(IntEnum):
    """How values are reduced; by Horovod's numbers."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


class Plain:
    """Sends values as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return what is sent, and what its receiver needs to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, _context: Any) -> Any:
        """Return what was sent."""
        return tensor


class ProcessSet:
    """Some of the ranks.

    Args:
        ranks: which, counted in the world; None for all.
    """

    def __init__(self, ranks: Any = None) -> None:
        self.ranks: list[int] | None = None if ranks is None else sorted(int(rank) for rank in ranks)
        self.process_set_id: int | None = 0 if ranks is None else None

    def included(self) -> bool:
        """Return whether this rank is in it."""
        return self.ranks is None or rank() in self.ranks

    def size(self) -> int:
        """Return how many ranks it has."""
        return size() if self.ranks is None else len(self.ranks)

    def rank(self) -> int:
        """Return which of them this is."""
        return rank() if self.ranks is None else self.ranks.index(rank())

    def rows_of(self, count: int) -> slice:
        """Return this rank's of so many rows; the first ranks have one more where they do not divide evenly."""
        each, more = divmod(count, self.size())
        mine = self.rank()
        start = mine * each + min(mine, more)
        return slice(start, start + each + (mine < more))

    def rows_sent(self, count: int, splits: Any) -> list[int]:
        """Return how many of so many rows go to each rank.

        Args:
            count: rows in all.
            splits: how many go to each; None for equally many.

        Raises:
            InvalidInput: they do not add up to all.
        """
        size = self.size()
        sent = [count // size] * size if splits is None else [int(number) for number in splits]
        if sum(sent) != count:
            raise InvalidInput(
                "hvd.alltoall sends each row to one rank.", f"{count} rows, splits={sent}", "Pass splits=[...]."
            )
        return sent


# Horovod's name of the set of all ranks.
global_process_set = ProcessSet()


class Joined:
    """Whether the program has called `init`, and the sets that were made since."""

    def __init__(self) -> None:
        self.is_initialised = False
        self.sets: list[ProcessSet] = []

    def begin(self, process_sets: Any) -> None:
        """Note that it has, with these sets to add."""
        self.is_initialised = True
        for one in process_sets if isinstance(process_sets, (list, tuple)) else ():
            add_process_set(one)

    def end(self) -> None:
        """Note that it has called `shutdown`."""
        for one in self.sets:
            one.process_set_id = None
        self.is_initialised = False
        self.sets.clear()


def joined() -> Joined:
    """Return this rank's."""
    return rank_state.here().part(Joined)


def is_initialized() -> bool:
    """Return whether `init` was called."""
    return joined().is_initialised


def add_process_set(process_set: Any) -> ProcessSet:
    """Make a set of ranks known. Collective: every rank of the world must call this.

    Args:
        process_set: a ProcessSet, or a list of ranks.
    """
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    sets = joined().sets
    if added not in sets and added.ranks is not None:
        sets.append(added)
        added.process_set_id = len(sets)
    return added


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forget a set of ranks; return whether it was known."""
    sets = joined().sets
    if process_set not in sets:
        return False
    sets.remove(process_set)
    process_set.process_set_id = None
    return True
