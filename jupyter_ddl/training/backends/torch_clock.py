"""Measures what the time of training steps is spent on, on PyTorch, which runs operations one by one from Python.

On a GPU a tensor counts as there when its computation has been queued: the rest of it counts as what waits for it.

Runs on: every rank.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import torch

from jupyter_ddl.training.backends.interface import Sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class TorchClock:
    """Measures the steps of one model's train function.

    Attributes:
        origin_s: what times count from; seconds since the epoch.
    """

    def __init__(self) -> None:
        self.origin_s = time.time()
        # One object, so that a reader in another thread gets all of one moment.
        self._sums = Sums()
        self._step: tuple[int, float] | None = None
        self._exchange_s = 0.0

    def batch_is_there(self, data: Any) -> None:
        """Note the time, and the number of samples, at the beginning of the step."""
        self._step, self._exchange_s = (samples_in(data), time.time() - self.origin_s), 0.0

    def step_ends(self) -> None:
        """Add the step's times to the sums."""
        if self._step is None:
            return
        (samples, at_s), before = self._step, self._sums
        self._step = None
        self._sums = Sums(
            before.steps + 1,
            before.samples + samples,
            before.batch_s + at_s,
            before.exchange_s + self._exchange_s,
            before.squares + samples * samples,
        )

    def exchange(self, gradients: Sequence[Any], reduce: Callable[[], list[Any]]) -> list[Any]:  # noqa: ARG002
        """Return what `reduce` does, and note how long it takes."""
        began_s = time.time()
        reduced = reduce()
        self._exchange_s += time.time() - began_s
        return reduced

    def wait(self, since: Sequence[Any], until: Sequence[Any]) -> None:
        """Do nothing: `meet` has noted it."""

    def meet(self, reduce: Callable[[], Any]) -> Any:
        """Return what `reduce` does, and note how long it takes."""
        return self.exchange((), lambda: [reduce()])[0]

    def read(self) -> Sums:
        """Return the sums."""
        return self._sums


def tensors_in(data: Any) -> list[Any]:
    """Return the tensors that a batch is made of."""
    return [part for part in keras.tree.flatten(data) if isinstance(part, torch.Tensor)]


def samples_in(data: Any) -> int:
    """Return the number of samples of a batch: the first dimension of its first part."""
    first = next((part for part in keras.tree.flatten(data) if part is not None), None)
    if first is None:
        return 0
    shape: Any = getattr(first, "shape", ())
    return int(shape[0]) if len(shape) else 1
