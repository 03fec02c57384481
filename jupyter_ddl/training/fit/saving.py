"""How a `fit` is saved by a layer above this one: `rank/install` says by which (`checkpoints` with `--checkpoint DIR`).

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager


class Unsaved:
    """A `fit` that nobody asked to save.

    Attributes:
        callbacks: that come after all others.
    """

    callbacks: tuple[Any, ...] = ()

    def running(self) -> AbstractContextManager[None]:
        """Return a context in which Keras's `fit` runs."""
        return nullcontext()


class Saver(Protocol):
    """Decides how one `fit` is saved."""

    def __call__(self, model: Any, arguments: dict[str, Any], others: Sequence[Any]) -> Unsaved:
        """Return how it is saved.

        Args:
            model: compiled.
            arguments: of `fit`, by name.
            others: its callbacks on this rank, but for what is returned.
        """


def _unsaved(model: Any, arguments: dict[str, Any], others: Sequence[Any]) -> Unsaved:  # noqa: ARG001 (a Saver)
    return Unsaved()


_saver: Saver = _unsaved


def save_by(saver: Saver) -> None:
    """Have every `fit` on this rank ask `saver` how it is saved."""
    global _saver
    _saver = saver


def of_this_fit(model: Any, arguments: dict[str, Any], others: Sequence[Any]) -> Unsaved:
    """Return how a `fit` is saved; see `Saver`."""
    return _saver(model, arguments, others)
