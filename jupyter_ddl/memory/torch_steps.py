"""Measures training steps of PyTorch: what is kept for the backward pass, and how long a step takes.

Runs on: every rank, or any process.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable


class _Made(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """Notes each storage that an operation makes, without keeping it."""

    def __init__(self, known: set[int]) -> None:
        super().__init__()
        self._known = known
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        answer = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(answer):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self._known:
                    self._made[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        return answer

    def alive_bytes(self) -> int:
        """Return the bytes of those that are still there."""
        return sum(size for storage, size in self._made.values() if not storage.expired())


def kept_bytes(tensors: list[Any], loss_of: Callable[[Any], Any], batch: Any) -> tuple[float, bool]:
    """Return the bytes that are alive after the forward pass and were not before, and that all were counted.

    Args:
        tensors: the model's parameters and buffers.
        loss_of: of a batch: a scalar.
        batch: as `loss_of` takes it.
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    with _Made(known) as made:
        loss = loss_of(batch)
        alive = made.alive_bytes()
    loss.backward()
    _forget(tensors)
    return float(alive), True


def seconds(tensors: list[Any], loss_of: Callable[[Any], Any], batch: Any, repetitions: int) -> list[float]:
    """Return the times of some steps, forward and backward, without an update."""
    times = []
    is_on_gpu = any(tensor.is_cuda for tensor in tensors)
    for _ in range(repetitions + 1):
        began = time.perf_counter()
        loss_of(batch).backward()
        if is_on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
        _forget(tensors)
    return times[1:]


def keeping_state(tensors: list[Any]) -> Callable[[], None]:
    """Return a function that puts back what steps change: buffers, and the state of the random numbers.

    Raises nothing where gradients are there: they are put back too.
    """
    buffers = [(tensor, tensor.detach().clone()) for tensor in tensors if not tensor.requires_grad]
    gradients = [(tensor, tensor.grad) for tensor in tensors if tensor.grad is not None]
    _forget(tensors)
    return partial(_put_back, buffers, gradients, torch.get_rng_state())


@torch.no_grad()
def _put_back(buffers: list[tuple[Any, Any]], gradients: list[tuple[Any, Any]], random_state: Any) -> None:
    for tensor, value in buffers:
        tensor.copy_(value)
    for tensor, gradient in gradients:
        tensor.grad = gradient
    torch.set_rng_state(random_state)


def _forget(tensors: list[Any]) -> None:
    for tensor in tensors:
        tensor.grad = None
