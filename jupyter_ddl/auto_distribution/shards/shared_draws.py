"""Manages the random states of a PyDataset: shared ones for what all ranks do alike, a rank's own for its batches.

A PyDataset shuffles in `on_epoch_end`, on all ranks alike; and it may draw in `__getitem__`, which each rank calls for
its own batches only. With one state for both, the ranks would shuffle differently as soon as they have made different
numbers of batches.

Runs on: every rank.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.backends.interface import RandomState

if TYPE_CHECKING:
    from collections.abc import Iterator


class SharedDraws:
    """The random states that a PyDataset may draw from, in two sets.

    The global ones of Python, NumPy and the backend, and the generators that it holds, or that its methods see.

    Collective: every rank must make one, in the same order.

    Args:
        owner: the PyDataset.
    """

    def __init__(self, owner: Any) -> None:
        self._states = {**_global_states(), **_own_states(owner)}
        self._shared: dict[str, Any] = hvd.broadcast_object(self._read(), 0, name="random_states")
        self._write(self._shared)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Draw from the shared states within this context."""
        own = self._read()
        self._write(self._shared)
        try:
            yield
        finally:
            self._shared = self._read()
            self._write(own)

    @contextmanager
    def set_apart(self, rank: int) -> Iterator[None]:
        """Use states of this rank's own within this context, in which batches are made.

        Otherwise all ranks would augment their samples with the same random numbers. Rank 0 draws as one process.
        """
        before = self._read()
        yield
        drawn = [name for name, state in self._read().items() if repr(state) != repr(before.get(name))]
        for name in drawn if rank else []:
            self._states[name].seed(_number_of(before[name], rank))

    def finish(self) -> None:
        """Leave the states alike on all ranks."""
        self._write(self._shared)

    def _read(self) -> dict[str, Any]:
        return {name: state.get() for name, state in self._states.items()}

    def _write(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if name in self._states:
                self._states[name].set(value)


def _number_of(state: Any, rank: int) -> int:
    """Return a seed for a rank, drawn from a state that all ranks have alike."""
    return random.Random(f"{state!r} rank {rank}").randrange(2**32)


def _global_states() -> dict[str, RandomState]:
    states = {
        "random": RandomState(random.getstate, random.setstate, random.seed),
        "numpy.random": RandomState(np.random.get_state, np.random.set_state, np.random.seed),
    }
    return states | ops.random_states()


def _own_states(owner: Any) -> dict[str, RandomState]:
    """Return the states of generators that an object holds, or that are global to, or enclosed in, its methods."""
    seen: dict[str, Any] = dict(vars(owner))
    for kind in type(owner).__mro__:
        for method in vars(kind).values():
            code = getattr(method, "__code__", None)
            if code is None or kind.__module__.startswith("keras."):
                continue
            enclosed = zip(code.co_freevars, method.__closure__ or (), strict=True)
            seen |= {f"enclosed {name}": _content(cell) for name, cell in enclosed}
            seen |= {f"global {name}": value for name, value in method.__globals__.items()}
    kinds = (np.random.Generator, np.random.RandomState, random.Random)
    return {name: _of(value) for name, value in seen.items() if isinstance(value, kinds)}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that has not been given a value yet
        return None


def _of(generator: Any) -> RandomState:
    if isinstance(generator, random.Random):
        return RandomState(generator.getstate, generator.setstate, generator.seed)
    if isinstance(generator, np.random.RandomState):
        return RandomState(generator.get_state, generator.set_state, generator.seed)
    bits = generator.bit_generator

    def put(state: Any) -> None:
        bits.state = state

    return RandomState(lambda: bits.state, put, lambda number: put(type(bits)(number).state))
