"""Keeps what a training of PyTorch's does not need on the GPU at the moment in the host's memory.

Copies go through pinned memory on a stream of their own, so that they overlap with what the GPU computes. This was
tested on a host's cores for equal results, and was not measured on a GPU.

Runs on: every rank, or any process.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEAST_BYTES = 2**20


@contextmanager
def activations_on_host(least_bytes: int = _LEAST_BYTES, *, of_any_device: bool = False) -> Iterator[None]:
    """Keep in host memory what the forward passes in the block save for their backward passes.

    Weights, and tensors smaller than `least_bytes`, stay where they are. The backward pass may come after the block.

    Args:
        least_bytes: of a tensor that is copied.
        of_any_device: also copy what is in host memory already; it saves nothing, and shows that results are equal.

    Raises:
        InvalidInput: `least_bytes` is below 0.

    Example:
        >>> with jupyter_ddl.memory.activations_on_host():
        ...     loss = loss_of(model(x), y)
        >>> loss.backward()
    """
    if least_bytes < 0:
        raise InvalidInput("A size is not below 0.", f"least_bytes={least_bytes}", "Pass e.g. 2**20.")
    copies = _Copies(least_bytes, of_any_device=of_any_device)
    with torch.autograd.graph.saved_tensors_hooks(copies.pack, copies.unpack):
        yield


def state_on_host(optimizer: Any) -> None:
    """Keep an optimizer's state in host memory but during its steps, so that activations have room in between.

    The state is on the GPU while `optimizer.step()` runs: the peak of that moment is as before.

    Args:
        optimizer: a torch.optim.Optimizer.

    Raises:
        InvalidInput: it is none.

    Example:
        >>> optimizer = torch.optim.AdamW(model.parameters())
        >>> jupyter_ddl.memory.state_on_host(optimizer)
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidInput(
            "state_on_host takes an optimizer of PyTorch's.",
            f"{type(optimizer).__module__}.{type(optimizer).__name__}",
            "Pass e.g. torch.optim.AdamW(model.parameters()).",
        )
    optimizer.register_step_pre_hook(lambda *_: move_state(optimizer, to_host=False))
    optimizer.register_step_post_hook(lambda *_: move_state(optimizer, to_host=True))


class _Copies:
    """Copies tensors to the host and back."""

    def __init__(self, least_bytes: int, *, of_any_device: bool) -> None:
        self._least_bytes = least_bytes
        self._of_any_device = of_any_device
        self._streams: dict[torch.device, Any] = {}

    def pack(self, tensor: torch.Tensor) -> Any:
        """Return what is kept in place of a tensor."""
        size = tensor.numel() * tensor.element_size()
        stays = not tensor.is_cuda and not self._of_any_device
        # A leaf that is trained is a weight, which is there anyhow; so is what is not one block of memory.
        if stays or size < self._least_bytes or (tensor.is_leaf and tensor.requires_grad):
            return tensor
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        if not tensor.is_cuda:
            return tensor.device, host.copy_(tensor.detach()), None
        stream = self._stream(tensor.device)
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(stream):
            host.copy_(tensor.detach(), non_blocking=True)
            done = stream.record_event()
        # Its memory is not given to another tensor before the copy is made.
        tensor.record_stream(stream)
        return tensor.device, host, done

    def unpack(self, kept: Any) -> torch.Tensor:
        """Return the tensor again."""
        if isinstance(kept, torch.Tensor):
            return kept
        device, host, done = kept
        if done is None:
            return host.to(device)
        stream = self._stream(device)
        with torch.cuda.stream(stream):
            stream.wait_event(done)
            tensor = host.to(device, non_blocking=True)
        now = torch.cuda.current_stream(device)
        now.wait_stream(stream)
        tensor.record_stream(now)
        return tensor

    def _stream(self, device: torch.device) -> Any:
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]


def move_state(optimizer: Any, *, to_host: bool) -> None:
    """Move an optimizer's state to the host, or to the devices of the weights."""
    for weight, state in optimizer.state.items():
        for name, value in state.items():
            # Counts of steps are on the host, where the optimizer wants them.
            if not isinstance(value, torch.Tensor) or value.shape != weight.shape:
                continue
            if not to_host:
                state[name] = value.to(weight.device, non_blocking=True)
            elif value.is_cuda:
                state[name] = torch.empty(value.shape, dtype=value.dtype, pin_memory=True).copy_(value)
