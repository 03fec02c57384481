"""Measures when steps of JAX's begin and what they train on. What they wait for each other JAX does not say.

JAX computes in the background: a step counts from when its batch is there to when the next one is requested.

Runs on: every rank.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import jax

from jupyter_ddl.training.backends.interface import Sums
from jupyter_ddl.training.backends.jax_program import register_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class JaxClock:
    """A clock of the host, around the program that a step is.

    Attributes:
        origin_s: what times count from; seconds since the epoch.
    """

    def __init__(self) -> None:
        self.origin_s = time.time()
        self._sums = Sums()
        self._step: tuple[int, float] | None = None
        register_clock(self)

    def begins(self, data: Any) -> None:
        """Note that a step begins: its batch is there."""
        self._step = samples_in(data), time.time() - self.origin_s

    def ended(self) -> None:
        """Add the step to the sums."""
        if self._step is None:
            return
        (samples, at_s), before, self._step = self._step, self._sums, None
        self._sums = Sums(
            before.steps + 1,
            before.samples + samples,
            before.batch_s + at_s,
            before.exchange_s,
            before.squares + samples * samples,
        )

    def batch_is_there(self, data: Any) -> None:
        """Do nothing: a step that is traced has no time."""

    def step_ends(self) -> None:
        """Do nothing."""

    def exchange(self, gradients: Sequence[Any], reduce: Callable[[], list[Any]]) -> list[Any]:  # noqa: ARG002
        """Return what `reduce` does."""
        return reduce()

    def wait(self, since: Sequence[Any], until: Sequence[Any]) -> None:
        """Do nothing."""

    def meet(self, reduce: Callable[[], Any]) -> Any:
        """Return what `reduce` does."""
        return reduce()

    def read(self) -> Sums:
        """Return the sums."""
        return self._sums


def tensors_in(data: Any) -> list[Any]:
    """Return the arrays that a batch is made of."""
    parts: list[Any] = jax.tree_util.tree_leaves(data)
    return parts


def samples_in(data: Any) -> int:
    """Return the number of samples of a batch: the first dimension of its first part."""
    shape: Any = next((getattr(part, "shape", ()) for part in jax.tree_util.tree_leaves(data)), (0,))
    return int(shape[0]) if len(shape) else 1
