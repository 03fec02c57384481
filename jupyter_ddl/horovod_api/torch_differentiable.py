"""Gives collectives their gradients, as Horovod does: a loss may go through values of other ranks.

What a rank's loss does to another rank's value comes back in the mean over the ranks, as gradients of a training do.
Source: horovod 0.28.1, horovod/torch/mpi_ops.py, `backward` of each of its functions.

Runs on: every rank. Collective, in both directions: every rank of the process set must call each of them, and
`backward()`, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api import torch_collectives
from jupyter_ddl.horovod_api.environment_ranks import rank
from jupyter_ddl.horovod_api.process_sets import Op

if TYPE_CHECKING:
    from jupyter_ddl.horovod_api.process_sets import ProcessSet


class Allreduce(torch.autograd.Function):  # type: ignore[misc]
    """Reduces; a gradient is reduced alike."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, how: dict[str, Any]) -> torch.Tensor:
        """Return the reduced tensor.

        Args:
            ctx: of autograd.
            tensor: this rank's.
            how: the further arguments of `torch_collectives.allreduce`.

        Raises:
            InvalidInput: a gradient is asked for, and the operation has none.
        """
        if ctx.needs_input_grad[0] and how["op"] not in (Op.Average, Op.Sum):
            raise InvalidInput(
                "A gradient goes through hvd.allreduce with hvd.Average and hvd.Sum.",
                f"op=hvd.{how['op'].name} of a tensor that requires one",
                "Pass tensor.detach(), where none is needed.",
            )
        ctx.how = how
        return torch_collectives.allreduce(tensor, **how)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of this rank's tensor."""
        return torch_collectives.allreduce(gradient, **ctx.how), None


class Allgather(torch.autograd.Function):  # type: ignore[misc]
    """Gathers rows; each rank gets the mean of the gradients of its own."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
        """Return all ranks' rows."""
        ctx.process_set, ctx.rows = process_set, len(tensor)
        return torch_collectives.allgather(tensor, process_set=process_set)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of this rank's rows."""
        process_set = ctx.process_set
        mean = torch_collectives.allreduce(gradient, process_set=process_set)
        counts = torch_collectives.allgather_object(ctx.rows, process_set=process_set)
        begin = sum(counts[: process_set.rank()])
        return mean[begin : begin + ctx.rows], None


class Broadcast(torch.autograd.Function):  # type: ignore[misc]
    """Sends a rank's tensor; that rank gets the mean of the gradients, and the others none."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, process_set: ProcessSet) -> torch.Tensor:
        """Return the rank's tensor."""
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return torch_collectives.broadcast(tensor, root_rank, process_set=process_set)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the gradient of this rank's tensor."""
        mean = torch_collectives.allreduce(gradient, process_set=ctx.process_set)
        return (mean if rank() == ctx.root_rank else torch.zeros_like(mean)), None, None


class Alltoall(torch.autograd.Function):  # type: ignore[misc]
    """Sends rows to each rank; their gradients come back from there."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, process_set: ProcessSet) -> tuple[torch.Tensor, Any]:
        """Return the rows for this rank, and how many each rank has sent."""
        rows = process_set.rows_sent(len(tensor), splits)
        received, counts = torch_collectives.alltoall(tensor, splits=rows, process_set=process_set)
        ctx.counts, ctx.process_set = counts.tolist(), process_set
        ctx.mark_non_differentiable(counts)
        return received, counts

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _of_counts: Any) -> tuple[torch.Tensor, None, None]:
        """Return the gradient of this rank's rows."""
        sent, _ = torch_collectives.alltoall(gradient, splits=ctx.counts, process_set=ctx.process_set)
        return sent, None, None


class Reducescatter(torch.autograd.Function):  # type: ignore[misc]
    """Reduces, and gives each rank its rows; their gradients go to all."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, how: dict[str, Any]) -> torch.Tensor:
        """Return this rank's rows; `how` has the further arguments of `torch_collectives.reducescatter`."""
        ctx.how = how
        return torch_collectives.reducescatter(tensor, **how)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of this rank's tensor."""
        process_set = ctx.how["process_set"]
        factor = ctx.how["prescale_factor"] * ctx.how["postscale_factor"]
        factor *= process_set.size() if ctx.how["op"] == Op.Sum else 1
        return torch_collectives.allgather(gradient * factor, process_set=process_set), None
