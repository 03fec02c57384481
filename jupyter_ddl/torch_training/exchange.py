"""Measures how long a rank waits for the others: in `wait()` of a collective, and at the end of a backward pass.

At the end of a backward pass DDP, in C++ code, and `--auto` wait for what they exchange: from when all of this rank's
own gradients are there until `backward()` returns. What is exchanged while a rank still computes is no wait. On NCCL,
whose calls return at once, both moments are events of the GPU's stream.

Source: torch 2.6 to 2.13, torch/csrc/autograd/engine.cpp: callbacks that are queued run in the order of their queueing,
when all gradients are there; DDP queues its own when its last bucket is ready.

Runs on: every rank, where a program has imported torch.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.autograd import Variable

from jupyter_ddl.torch_training.steps import Waited

if TYPE_CHECKING:
    from collections.abc import Callable


class Exchange:
    """The waits of one rank's current cell.

    Args:
        backward_begins: called before each backward pass.
        backward_ended: called after each.
    """

    def __init__(self, backward_begins: Callable[[], None], backward_ended: Callable[[], None]) -> None:
        self._backward_begins = backward_begins
        self._backward_ended = backward_ended
        self._is_initialized: Callable[[], bool] = dist.is_initialized if dist.is_available() else bool
        self.begin()

    def begin(self) -> None:
        """Begin a cell."""
        self._waited = Waited()
        self._depth = 0
        self._own: Any = None
        self._knows_backend = False
        self._is_on_gpu = False

    def take(self) -> Waited:
        """Return what was waited since the last call."""
        taken, self._waited = self._waited, Waited()
        return taken

    def backward(self, stock: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Replace `torch.autograd.backward`: note when this rank's own gradients are there, and when it returns."""
        if self._depth:
            # One within another is a part of that: a checkpoint's, which computes again.
            stock(*args, **kwargs)
            return
        self._backward_begins()
        root = _root(args[0] if args else kwargs.get("tensors"))
        if root is None or not self._is_initialized() or _is_compiled():
            stock(*args, **kwargs)
            self._backward_ended()
            return
        self._own, self._depth = None, 1
        handle = root.register_hook(self._begins)
        try:
            stock(*args, **kwargs)
        finally:
            handle.remove()
            own, self._own, self._depth = self._own, None, 0
        if own is not None:
            self._add(own)
        self._backward_ended()

    def wait(self, stock: Callable[..., Any], work: Any, *args: Any, **kwargs: Any) -> Any:
        """Replace `Work.wait`: note how long it took."""
        if self._own is not None:
            # At the end of a backward pass all is counted.
            return stock(work, *args, **kwargs)
        began = self._now()
        try:
            return stock(work, *args, **kwargs)
        finally:
            self._add(began)

    def _begins(self, _gradient: Any) -> None:
        Variable._execution_engine.queue_callback(self._own_are_there)

    def _own_are_there(self) -> None:
        self._own = self._now()

    def _now(self) -> Any:
        if not self._knows_backend and self._is_initialized():
            self._knows_backend = True
            self._is_on_gpu = "nccl" in dist.get_backend()
        return _event() if self._is_on_gpu else time.perf_counter()

    def _add(self, began: Any) -> None:
        if isinstance(began, float):
            self._waited.seconds += time.perf_counter() - began
        else:
            self._waited.events.append((began, _event()))


def _root(tensors: Any) -> Any:
    """Return a tensor from which a backward pass begins, which can be hooked; None where there is none."""
    first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
    return first if isinstance(first, torch.Tensor) and first.grad_fn is not None else None


def _is_compiled() -> bool:
    """Return whether the backward pass is one that torch compiles, hooks included."""
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(compiled, "compiled_autograd_enabled", False))


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
