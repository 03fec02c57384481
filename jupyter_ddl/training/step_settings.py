"""Holds how `--auto` wants training steps to be made; explicit Horovod makes them as they are.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
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
    """How training steps are made under `--auto`; explicit Horovod uses the defaults.

    Attributes:
        whole_batches: the ranks' batches are parts of one, so that a sum over the batch is that over all parts.
        exchanges_early: gradients are exchanged as the tape returns them, since the program's own step may change them.
        random: whose random numbers a step draws.
    """

    whole_batches: bool = False
    exchanges_early: bool = False
    random: RandomNumbers | None = None


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
    return _manner.get() or Manner()
