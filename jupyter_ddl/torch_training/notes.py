"""Holds what ranks write down for each other, in the store of their process groups: no rank waits for another.

Runs on: every rank, in the main thread. Imports no torch.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

# The store is gone with rank 0, busy, or shut down by a release; or another user of the machine has written into it.
_ERRORS = (RuntimeError, ValueError, OSError, msgspec.MsgspecError)
# How many of a rank's details the store keeps.
_KEPT = 2

_Told = TypeVar("_Told")


@dataclass(frozen=True)
class Weights:
    """The parameters of one optimizer on one rank.

    Attributes:
        optimizer: its class.
        layout: a digest of their shapes and dtypes, and of their names in a model that DDP wraps.
        bits: a digest of their values.
        together: the ranks that must hold the same values, as DDP or `--auto` say; None where nothing says so.
    """

    optimizer: str
    layout: str
    bits: str
    together: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Note:
    """What one rank has done up to a step.

    Attributes:
        step: how many steps of the training.
        weights: of each optimizer, in the order of their first steps.
        is_alone: it has entered no collective meanwhile.
        is_sharded: it holds parts of parameters.
        batches: digests of its first batches; empty where these tell nothing.
    """

    step: int
    weights: tuple[Weights, ...]
    is_alone: bool = False
    is_sharded: bool = False
    batches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Details:
    """The parameters of one optimizer, one by one.

    Attributes:
        names: of each.
        sums: of each one's values; norms likewise.
        tolerances: by how much of a norm two ranks may differ by rounding.
    """

    names: tuple[str, ...]
    sums: tuple[float, ...]
    norms: tuple[float, ...]
    tolerances: tuple[float, ...]


class Board:
    """Where the ranks of one cell write.

    Args:
        connect: returns a connection to the ranks' store; None while there is none.
        rank: whose it is.
        world_size: the number of all ranks.
    """

    def __init__(self, connect: Callable[[], Any], rank: int, world_size: int) -> None:
        self._connect = connect
        self._rank = rank
        self._world_size = world_size
        self._store: Any = None
        self._written: list[str] = []
        self._prefix = ""
        self._ranks = world_size

    def begin(self, run: str, ranks: int) -> None:
        """Begin a cell.

        Args:
            run: its id, the same on all ranks.
            ranks: how many ranks run it.
        """
        self._prefix, self._ranks = f"{run}/training", ranks
        # A release has shut the last one down.
        self._store = None

    def write(self, moment: str, note: Note, details: tuple[Details, ...]) -> None:
        """Write what this rank has done up to a moment, which has the same name on all ranks."""

        def written(store: Any) -> None:
            # The details first: a rank that finds the note reads them.
            key = self._key(moment, self._rank)
            store.set(f"{key}/details", msgspec.json.encode(details).decode())
            store.set(key, msgspec.json.encode(note).decode())
            self._written.append(key)
            while len(self._written) > _KEPT:
                old = self._written.pop(0)
                for one in (old, f"{old}/details"):
                    store.delete_key(one)

        self._asked(written, None)

    def read(self, moment: str) -> dict[int, Note] | None:
        """Return what all ranks of the cell wrote of a moment; None where some have not yet."""

        def found(store: Any) -> dict[int, Note] | None:
            every = {rank: self._key(moment, rank) for rank in range(self._world_size)}
            if self._ranks < self._world_size or not store.check(list(every.values())):
                every = {rank: key for rank, key in every.items() if store.check([key])}
            if len(every) < self._ranks:
                return None
            return {rank: msgspec.json.decode(store.get(key), type=Note) for rank, key in every.items()}

        return self._asked(found, None)

    def details(self, moment: str, rank: int) -> tuple[Details, ...]:
        """Return a rank's details of a moment; none where it has removed them."""

        def found(store: Any) -> tuple[Details, ...]:
            key = f"{self._key(moment, rank)}/details"
            return msgspec.json.decode(store.get(key), type=tuple[Details, ...]) if store.check([key]) else ()

        return self._asked(found, ())

    def is_first(self, what: str) -> bool:
        """Return whether this rank is the first of the cell to say something."""
        return self._asked(lambda store: int(store.add(f"{self._prefix}/said/{what}", 1)) == 1, False)

    def _key(self, moment: str, rank: int) -> str:
        return f"{self._prefix}/{moment}/{rank}"

    def _asked(self, question: Callable[[Any], _Told], otherwise: _Told) -> _Told:
        """Return what the store answers; `otherwise` where it does not: the next question connects again."""
        with suppress(*_ERRORS):
            self._store = self._store or self._connect()
            if self._store is not None:
                return question(self._store)
            return otherwise
        self._store = None
        return otherwise
