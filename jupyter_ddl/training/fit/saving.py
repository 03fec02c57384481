"""Declares the interface of what saves a `fit`: `rank/install` passes the saver of `checkpoints`.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager


class Unsaved:
    """A `fit` that is not saved.

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


def unsaved(model: Any, arguments: dict[str, Any], others: Sequence[Any]) -> Unsaved:  # noqa: ARG001 (a Saver)
    """Save nothing: the `Saver` of a rank without another."""
    return Unsaved()
