"""Has the models of PyTorch's that a program calls compute in less memory, with no line of it changed.

`--memory remat` computes what is inside of their parts again in the backward pass, `mixed` computes them in bfloat16,
and `host` keeps what the backward pass needs, and the optimizers' state, in host memory. Of a program's calls the
outermost one of a model that is trained counts. A model stays as it is: nothing is set on it, so that it is copied and
saved as ever.

Runs on: every rank, where a program has imported torch.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from jupyter_ddl.engine import malloc, rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import Layer, Patch, patch
from jupyter_ddl.memory.host_memory import activations_on_host, move_state
from jupyter_ddl.memory.parts_of_models import parts_of
from jupyter_ddl.memory.unused import Trained
from jupyter_ddl.protocol.memory_options import ACCUMULATE, SHARD_OPTIMIZER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.protocol.memory_options import MemoryOptions


class CalledModules:
    """What `--memory` changes of the models that the current cell calls.

    Args:
        is_tried: it is measured what that would be: the process stays as it is, and nothing is said.
    """

    def __init__(self, *, is_tried: bool = False) -> None:
        self._is_tried = is_tried
        self._options: MemoryOptions | None = None
        self._calls: Patch | None = None
        self._has_hooks = False
        self._known: WeakSet[torch.nn.Module] = WeakSet()
        self._parts: WeakSet[torch.nn.Module] = WeakSet()
        # Whose state is in host memory, also in cells without the word.
        self._on_host: WeakSet[torch.optim.Optimizer] = WeakSet()
        self._within = threading.local()

    def begin(self, options: MemoryOptions | None) -> None:
        """Begin a cell with these options. Without a word that acts on modules their calls are PyTorch's own."""
        if self._calls is not None:
            self._calls.undo()
            self._calls = None
        self._options = options
        if options is None:
            return
        if options.remat or options.mixed or options.host:
            self._calls = patch(torch.nn.Module, "__call__", self._call, Layer.MEMORY)
        if not self._has_hooks and not self._is_tried:
            self._has_hooks = True
            register_optimizer_step_pre_hook(self._before_step)
            register_optimizer_step_post_hook(self._after_step)

    def _call(self, stock: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        """Replace `Module.__call__`."""
        options = self._options
        if options is None or _is_within_keras():
            return stock(module, *args, **kwargs)
        if getattr(self._within, "is_model", False):
            if module in self._parts and options.remat and torch.is_grad_enabled():
                return self._computed_again(partial(stock, module, *args, **kwargs), module)
            return stock(module, *args, **kwargs)
        first = next((one for one in module.parameters() if one.requires_grad), None)
        if first is None:
            return stock(module, *args, **kwargs)
        if not self._is_tried:
            rank_state.here().part(Trained).is_done = True
        self._know(module, options, first)
        with self._marked(), ExitStack() as modes:
            for mode in _modes(options, first):
                modes.enter_context(mode)
            outputs = stock(module, *args, **kwargs)
        return _single(outputs) if options.mixed and first.dtype == torch.float32 else outputs

    def _know(self, model: torch.nn.Module, options: MemoryOptions, first: torch.Tensor) -> None:
        """Choose the parts of a model, when it is first called.

        Raises:
            InvalidInput: it is compiled, and its parts are to be computed again.
        """
        if model in self._known:
            return
        _check(model, options)
        self._known.add(model)
        if first.device.type == "cpu" and not self._is_tried:
            malloc.give_freed_memory_back()
        if not options.remat:
            return
        # What a single operation needs is kept for it either way.
        parts = [part for part in parts_of(model) if any(True for _ in part.children())]
        self._parts.update(parts)
        if not parts and not self._is_tried and os.environ.get("RANK", "0") == "0":
            print(
                f"NOTE: --memory remat had no effect on {type(model).__name__}: it acts on modules that are made of "
                "others and have at most half of a model's weights, as the blocks of a transformer.",
                file=sys.stderr,
                flush=True,
            )

    def _computed_again(self, call: Callable[[], Any], part: torch.nn.Module) -> Any:
        """Call a part, of which the backward pass is to compute the activations again.

        Its buffers, as a normalisation's statistics, are then what they were before the call, and stay as they are.
        """
        before = [
            (owner, name, value.detach().clone())
            for owner in part.modules()
            for name, value in owner._buffers.items()
            if value is not None
        ]
        again = self._again
        return checkpoint(call, use_reentrant=False, context_fn=lambda: (nullcontext(), again(before)))

    @contextmanager
    def _again(self, buffers: list[tuple[torch.nn.Module, str, torch.Tensor]]) -> Iterator[None]:
        kept = [owner._buffers[name] for owner, name, _ in buffers]
        for owner, name, value in buffers:
            owner._buffers[name] = value
        try:
            # The backward pass may run in a thread of its own.
            with self._marked():
                yield
        finally:
            for (owner, name, _), value in zip(buffers, kept, strict=True):
                owner._buffers[name] = value

    @contextmanager
    def _marked(self) -> Iterator[None]:
        """Note that what this thread calls in the block is inside of a model."""
        was = getattr(self._within, "is_model", False)
        self._within.is_model = True
        try:
            yield
        finally:
            self._within.is_model = was

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        _check_step(optimizer, self._options)
        if optimizer in self._on_host:
            move_state(optimizer, to_host=False)
            self._on_host.discard(optimizer)

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if self._options is not None and self._options.host:
            move_state(optimizer, to_host=True)
            self._on_host.add(optimizer)


@contextmanager
def tried(options: MemoryOptions) -> Iterator[None]:
    """Have the models that are called in the block compute in less memory."""
    called = CalledModules(is_tried=True)
    called.begin(options)
    try:
        yield
    finally:
        called.begin(None)


def takes_bfloat16(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's device computes in bfloat16 itself."""
    return not tensor.is_cuda or torch.cuda.is_bf16_supported(including_emulation=False)


def _is_within_keras() -> bool:
    """Return whether a layer of Keras's calls the module: `--memory` changes its model by Keras's own means."""
    # Source: keras 3.15, src/layers/layer.py, _get_call_context
    state = sys.modules.get("keras.src.backend.common.global_state")
    return state is not None and state.get_global_attribute("current_call_ctx") is not None


def _check_step(optimizer: Any, options: MemoryOptions | None) -> None:
    """Refuse a step of a loop whose cell has words that are Keras's alone: it would train without them."""
    if options is not None and (options.accumulate > 1 or options.shard_optimizer):
        raise InvalidInput(
            f"--memory {ACCUMULATE} and {SHARD_OPTIMIZER} are for Keras's models.",
            f"--memory {options}, and a step of {type(optimizer).__name__}",
            "Leave them out: a loop accumulates by its own code (docs/memory.md), and shard-all divides the state.",
        )


def _check(model: torch.nn.Module, options: MemoryOptions) -> None:
    if options.remat and any(hasattr(one, "_orig_mod") or one._compiled_call_impl for one in model.modules()):
        raise InvalidInput(
            "--memory remat computes the parts of models again that torch.compile has not compiled.",
            f"a call of {type(model).__name__}, which is compiled",
            "Leave out remat, or torch.compile; its own option is torch._functorch.config.activation_memory_budget.",
        )


def _modes(options: MemoryOptions, first: torch.Tensor) -> Iterator[AbstractContextManager[Any]]:
    """Yield what is on while a model is called.

    Args:
        options: of the cell.
        first: a parameter of it.

    Raises:
        InvalidInput: its device does not compute in bfloat16.
    """
    kind = first.device.type
    # A program's own precision stays.
    if options.mixed and first.dtype == torch.float32 and not torch.is_autocast_enabled(kind):
        if not takes_bfloat16(first):
            raise InvalidInput(
                "--memory mixed computes PyTorch's models in bfloat16, which needs no scaled loss.",
                f"{torch.cuda.get_device_name(first.device)}, which does not have it",
                "Use torch.autocast with float16 and a GradScaler in the loop.",
            )
        yield torch.autocast(kind, torch.bfloat16)
    if options.host and torch.is_grad_enabled():
        yield activations_on_host()


def _single(outputs: Any) -> Any:
    """Return outputs in single precision: a loss of half precision would lose what tells batches apart."""
    return pytree.tree_map(
        lambda one: one.float() if isinstance(one, torch.Tensor) and one.dtype == torch.bfloat16 else one, outputs
    )
