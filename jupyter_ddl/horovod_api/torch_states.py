"""Sends weights, and states of optimizers, from one rank to all: what a training begins or continues with.

Runs on: every rank. Collective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api import torch_collectives
from jupyter_ddl.horovod_api.environment_ranks import rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def broadcast_parameters(
    params: Mapping[str, torch.Tensor] | Iterable[torch.Tensor | tuple[str, torch.Tensor]], root_rank: int
) -> None:
    """Overwrite tensors by those of a rank.

    Args:
        params: `model.state_dict()`, `model.named_parameters()` or `model.parameters()`.
        root_rank: which rank's.

    Raises:
        InvalidInput: one is no tensor.
    """
    pairs = params.items() if hasattr(params, "items") else params
    for number, pair in enumerate(pairs):
        name, tensor = pair if isinstance(pair, tuple) else (f"number {number}", pair)
        if not isinstance(tensor, torch.Tensor):
            raise InvalidInput(
                "hvd.broadcast_parameters sends tensors.",
                f"{name} of type {type(tensor).__name__}",
                "Send it by hvd.broadcast_object.",
            )
        tensor.detach().copy_(torch_collectives.broadcast(tensor, root_rank))


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Any = None,  # noqa: ARG001 (Horovod's)
) -> None:
    """Overwrite an optimizer's state, learning rates included, by that of a rank.

    Args:
        optimizer: distributed or not.
        root_rank: which rank's.
        model: Horovod's; of no use.

    Raises:
        InvalidInput: it is LBFGS, whose state is not of tensors alone.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidInput(
            "The state of LBFGS cannot be sent.", "hvd.broadcast_optimizer_state(LBFGS)", "Use another optimizer."
        )
    own = _pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.cpu(), optimizer.state_dict())
    sent = torch_collectives.broadcast_object(own if rank() == root_rank else None, root_rank)
    if rank() != root_rank:
        optimizer.load_state_dict(sent)
