"""Holds how `--auto` wants training steps to be made; explicit Horovod makes them as they are.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class RandomNumbers(Protocol):
    """Whose random numbers a step draws: each rank its own, or all ranks alike."""

    def running(self) -> AbstractContextManager[None]:
        """Draw as steps do within the context: at first each rank its own numbers."""

    def apart(self) -> None:
        """Draw each rank's own numbers from here on."""

    def alike(self) -> None:
        """Draw alike on all ranks from here on."""


@dataclass(frozen=True)
class Manner:
    """How training steps are made under `--auto` and `--memory`; explicit Horovod uses the defaults.

    Attributes:
        whole_batches: the ranks' batches are parts of one, so that a sum over the batch is that over all parts.
        exchanges_early: gradients are exchanged as the tape returns them, since the program's own step may change them.
        random: whose random numbers a step draws.
        shards_state: each rank keeps its part of the optimizer's state: `--memory shard-optimizer`.
        parts: that each batch is trained in, for one update: `--memory accumulate`.
    """

    whole_batches: bool = False
    exchanges_early: bool = False
    random: RandomNumbers | None = None
    parts: int = 1
    shards_state: bool = False


_parts: ContextVar[int] = ContextVar("the parts that batches are trained in", default=1)
_shards: ContextVar[bool] = ContextVar("whether optimizers' state is sharded", default=False)
_manner: ContextVar[Manner | None] = ContextVar("how steps are to be made", default=None)


@contextmanager
def in_manner(manner: Manner) -> Iterator[None]:
    """Make the steps of this context in this manner."""
    token = _manner.set(manner)
    try:
        yield
    finally:
        _manner.reset(token)


def manner() -> Manner:
    """Return how steps are made now."""
    return replace(_manner.get() or Manner(), parts=_parts.get(), shards_state=_shards.get())


@contextmanager
def in_less_memory(parts: int, *, shards_state: bool) -> Iterator[None]:
    """Train each batch of this context in so many parts, and shard the state of optimizers that exchange."""
    tokens = _parts.set(parts), _shards.set(shards_state)
    try:
        yield
    finally:
        _parts.reset(tokens[0])
        _shards.reset(tokens[1])
