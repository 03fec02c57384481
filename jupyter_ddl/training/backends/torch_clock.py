"""Measures what the time of training steps is spent on, on PyTorch, which runs operations one by one from Python.

On a GPU a tensor counts as there when its computation has been queued: the rest of it counts as what waits for it.

Runs on: every rank.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import torch

from jupyter_ddl.training.backends.host_clock import HostClock, rows_of_first

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class TorchClock(HostClock):
    """Measures within the step, as it runs."""

    def __init__(self) -> None:
        super().__init__()
        self._exchange_s = 0.0

    def batch_is_there(self, data: Any) -> None:
        """Note the time, and the number of samples, at the beginning of the step."""
        self._begin(samples_in(data))
        self._exchange_s = 0.0

    def step_ends(self) -> None:
        """Add the step's times to the sums."""
        self._end(self._exchange_s)

    def exchange(self, gradients: Sequence[Any], reduce: Callable[[], list[Any]]) -> list[Any]:  # noqa: ARG002
        """Return what `reduce` does, and note how long it takes."""
        began_s = time.time()
        reduced = reduce()
        self._exchange_s += time.time() - began_s
        return reduced


def tensors_in(data: Any) -> list[Any]:
    """Return the tensors that a batch is made of."""
    return [part for part in keras.tree.flatten(data) if isinstance(part, torch.Tensor)]


def samples_in(data: Any) -> int:
    """Return the number of samples of a batch: the first dimension of its first part."""
    return rows_of_first(keras.tree.flatten(data))
