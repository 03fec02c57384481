"""Gives the parts of a torch module's memory, and its steps to be measured.

Runs on: every rank, or any process.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.memory import torch_steps
from jupyter_ddl.memory.called_modules import takes_bfloat16, tried
from jupyter_ddl.protocol.memory_options import MIXED, REMAT, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PROBE = 8
_HINTS = {"accumulate": "backward() of each part's loss over the parts, then one optimizer.step()"}


class TorchSubject:
    """A module whose steps are measured.

    Args:
        module: on the device where it is trained.
        given: tensors to take samples from: the module's argument, or a tuple of it and what else the loss takes.
        loss: of what the module returns and the rest of the batch: a scalar; None for the mean of the outputs.
        optimizer: of the module; None to count Adam's state.

    Raises:
        InvalidInput: a number is given, and no tensors: a module does not say what it takes.
    """

    def __init__(self, module: Any, given: Any, loss: Callable[..., Any] | None, optimizer: Any) -> None:
        if isinstance(given, int):
            raise InvalidInput(
                "A module of PyTorch's does not say the shapes of its inputs.",
                f"batch={given}",
                "Pass a batch: advise(model, x), or advise(model, (x, y), loss=torch.nn.functional.cross_entropy).",
            )
        self.holds_weights = False
        self.is_of_torch = True
        self.hints = _HINTS
        self.shards_all = True
        self._module = module
        self._given = given if isinstance(given, tuple) else (given,)
        self._loss_function = loss
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.weights_bytes = sum(map(_bytes, self._tensors()))
        self.gradients_bytes = sum(map(_bytes, trained))
        self.optimizer_bytes = int(slots_of(optimizer) * self.gradients_bytes)

    def batch(self, samples: int) -> Any:
        """Return some rows of what was given."""
        return pytree.tree_map(lambda part: part[torch.arange(samples) % len(part)], self._given)

    def kept_bytes(self, batch: Any) -> tuple[float, bool]:
        """Return what a step keeps."""
        with self._state_kept():
            return torch_steps.kept_bytes(self._tensors(), self._loss, batch)

    def seconds(self, batch: Any, repetitions: int) -> list[float]:
        """Return the times of some steps."""
        with self._state_kept():
            return torch_steps.seconds(self._tensors(), self._loss, batch, repetitions)

    def changes(self) -> dict[str, AbstractContextManager[Any]]:
        """Return what `--memory mixed` and `remat` make of it."""
        first = next(self._module.parameters(), None)
        words = [MIXED, REMAT] if first is not None and takes_bfloat16(first) else [REMAT]
        return {word: tried(parsed(word)) for word in words}

    def _loss(self, batch: Any) -> Any:
        x, *rest = batch
        outputs = self._module(x)
        if self._loss_function is not None:
            return self._loss_function(outputs, *rest)
        tensors = [part for part in pytree.tree_leaves(outputs) if isinstance(part, torch.Tensor)]
        return sum(part.float().mean() for part in tensors if part.requires_grad)

    def _tensors(self) -> list[Any]:
        return [*self._module.parameters(), *self._module.buffers()]

    @contextmanager
    def _state_kept(self) -> Iterator[None]:
        put_back = torch_steps.keeping_state(self._tensors())
        was_training = self._module.training
        self._module.train()
        try:
            yield
        finally:
            self._module.train(was_training)
            put_back()


def slots_of(optimizer: Any) -> float:
    """Return how many numbers of state an optimizer has for each weight; 2, as Adam, where there is none.

    One of its kind makes a step on a weight of its own, and the state of that weight's size is counted.
    """
    if optimizer is None:
        return 2.0
    probe = torch.nn.Parameter(torch.zeros(_PROBE, _PROBE))
    options = {name: copy.copy(value) for name, value in optimizer.defaults.items()}
    new = type(optimizer)([{"params": [probe], **options}])
    probe.grad = torch.zeros_like(probe)
    new.step()
    tensors = [part for part in pytree.tree_leaves(dict(new.state[probe])) if isinstance(part, torch.Tensor)]
    return float(sum(tensor.numel() for tensor in tensors if tensor.ndim) / _PROBE**2)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
