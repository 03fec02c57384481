"""Averages the gradients of all ranks at the end of each backward pass, in the parameters' own `grad`.

Where ranks have different numbers of rows of a batch, each counts by its rows: a loss that is a mean over the batch has
the gradient that it would have in one process.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.autograd import Variable

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Exchange:
    """The exchange of the gradients of one optimizer's parameters: of all, also where a rank's rows reach only some.

    Args:
        is_on: returns whether the current cell is distributed.
        weight: returns how much this rank's rows of the current batch count: 1 where all ranks have as many.
    """

    def __init__(self, is_on: Callable[[], bool], weight: Callable[[], float]) -> None:
        self._parameters: list[torch.Tensor] = []
        self._is_on = is_on
        self._weight = weight
        self._is_due = False

    def add(self, parameters: Sequence[torch.Tensor]) -> None:
        """Exchange those of more parameters, in the order of the optimizer, which is the same on all ranks."""
        self._parameters += parameters
        for parameter in parameters:
            parameter.register_hook(self._weighted)
            parameter.register_post_accumulate_grad_hook(self._accumulated)

    def _weighted(self, gradient: torch.Tensor) -> torch.Tensor:
        """Weight what is added to `grad`, and not what earlier passes have left there."""
        weight = self._weight() if self._is_on() else 1.0
        return gradient if weight == 1.0 else gradient * weight

    def _accumulated(self, _parameter: torch.Tensor) -> None:
        if not self._is_due and self._is_on():
            self._is_due = True
            # As DDP does: called when the whole backward pass has ended.
            Variable._execution_engine.queue_callback(self._average)

    def _average(self) -> None:
        self._is_due = False
        kinds: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
        for parameter in self._parameters:
            kinds.setdefault((parameter.device, parameter.dtype), []).append(parameter)
        for alike in kinds.values():
            _average(alike)


def _average(parameters: Sequence[torch.Tensor]) -> None:
    """Average the gradients of parameters of one device and dtype, in one collective.

    A parameter that this rank's rows did not reach has no gradient here, and may have one elsewhere.
    """
    size = dist.get_world_size()
    gradients = [_dense(one.grad) if one.grad is not None else torch.zeros_like(one) for one in parameters]
    reached = [0.0 if one.grad is None else 1.0 for one in parameters]
    flat = torch.cat([*(one.reshape(-1) for one in gradients), gradients[0].new_tensor(reached)])
    flat.div_(size)
    dist.all_reduce(flat)
    parts = flat.split([*(one.numel() for one in gradients), len(parameters)])
    for parameter, part, is_reached in zip(parameters, parts, parts[-1].tolist(), strict=False):
        if is_reached > 0:
            if parameter.grad is None:
                parameter.grad = part.view_as(parameter).clone()
            else:
                parameter.grad.copy_(part.view_as(parameter))


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    if gradient.layout is not torch.strided:
        raise InvalidInput(
            "--auto averages dense gradients.", f"a gradient of layout {gradient.layout}", "Use sparse=False."
        )
    return gradient
