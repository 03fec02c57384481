"""Gives collectives as `horovod.torch` has them: differentiable, in place, grouped, and begun ahead of their result.

Runs on: every rank. Collective, each of them but `poll`: every rank of the process set must call it, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from jupyter_ddl.horovod_api import arguments, torch_collectives
from jupyter_ddl.horovod_api.process_sets import Op, Plain, ProcessSet, global_process_set
from jupyter_ddl.horovod_api.torch_differentiable import Allgather, Allreduce, Alltoall, Broadcast, Reducescatter
from jupyter_ddl.horovod_api.torch_process_sets import group_of
from jupyter_ddl.horovod_api.torch_reductions import Handle, begin_allreduce

if TYPE_CHECKING:
    from collections.abc import Sequence


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    compression: Any = Plain,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return a tensor reduced over the ranks; with `op` left out their mean."""
    how = {
        "op": arguments.operation(average, op),
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
        "compression": compression,
        "process_set": process_set,
    }
    reduced: torch.Tensor = Allreduce.apply(tensor, how)
    return reduced


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begin `allreduce`; `synchronize` returns its result, which has no gradient."""
    how = arguments.operation(average, op)
    return begin_allreduce(tensor, how, prescale_factor, postscale_factor, Plain, process_set)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begin to reduce a tensor in its place, which it takes when `synchronize` is called."""
    begun = allreduce_async(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
    return _in_place(tensor, begun)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduce a tensor in its place, and return it."""
    reduced: torch.Tensor = allreduce_async_(
        tensor, average, name, op, prescale_factor, postscale_factor, process_set
    ).wait()
    return reduced


def grouped_allreduce(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """Return tensors, each reduced as `allreduce` does with the same further arguments."""
    return [allreduce(tensor, *args, **kwargs) for tensor in tensors]


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Handle:
    """Begin `grouped_allreduce`."""
    return _together([allreduce_async(tensor, *args, **kwargs) for tensor in tensors])


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Handle:
    """Begin `grouped_allreduce_`."""
    return _together([allreduce_async_(tensor, *args, **kwargs) for tensor in tensors])


def grouped_allreduce_(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """Reduce tensors in their places, and return them."""
    reduced: list[torch.Tensor] = grouped_allreduce_async_(tensors, *args, **kwargs).wait()
    return reduced


def allgather(
    tensor: torch.Tensor,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return all ranks' rows, in the order of the ranks."""
    rows: torch.Tensor = Allgather.apply(tensor, process_set)
    return rows


def grouped_allgather(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """Return all ranks' rows of each tensor."""
    return [allgather(tensor, *args, **kwargs) for tensor in tensors]


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return a rank's tensor."""
    sent: torch.Tensor = Broadcast.apply(tensor, root_rank, process_set)
    return sent


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Overwrite a tensor by that of a rank, and return it."""
    written: torch.Tensor = _in_place(tensor, broadcast_async(tensor, root_rank, name, process_set)).wait()
    return written


def alltoall(
    tensor: torch.Tensor,
    splits: Any = None,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the rows that all ranks send to this one; with `splits`, also how many each has sent."""
    received, counts = Alltoall.apply(tensor, splits, process_set)
    return received if splits is None else (received, counts)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    compression: Any = Plain,
    op: Op = Op.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Return this rank's rows of the reduced tensor; the first ranks have one more where it does not divide evenly."""
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    sent, context = compression.compress(tensor)
    rows = Reducescatter.apply(sent, {"op": arguments.operation(None, op), "process_set": process_set, **factors})
    reduced: torch.Tensor = compression.decompress(rows, context)
    return reduced


def grouped_reducescatter(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """Return this rank's rows of each reduced tensor."""
    return [reducescatter(tensor, *args, **kwargs) for tensor in tensors]


def allgather_async(*args: Any, **kwargs: Any) -> Handle:
    """Call `allgather`; what it returns has ended."""
    return _ended(allgather(*args, **kwargs))


def grouped_allgather_async(*args: Any, **kwargs: Any) -> Handle:
    """Call `grouped_allgather`; what it returns has ended."""
    return _ended(grouped_allgather(*args, **kwargs))


def broadcast_async(*args: Any, **kwargs: Any) -> Handle:
    """Call `broadcast`; what it returns has ended."""
    return _ended(broadcast(*args, **kwargs))


def broadcast_async_(*args: Any, **kwargs: Any) -> Handle:
    """Call `broadcast_`; what it returns has ended."""
    return _ended(broadcast_(*args, **kwargs))


def alltoall_async(*args: Any, **kwargs: Any) -> Handle:
    """Call `alltoall`; what it returns has ended."""
    return _ended(alltoall(*args, **kwargs))


def reducescatter_async(*args: Any, **kwargs: Any) -> Handle:
    """Call `reducescatter`; what it returns has ended."""
    return _ended(reducescatter(*args, **kwargs))


def grouped_reducescatter_async(*args: Any, **kwargs: Any) -> Handle:
    """Call `grouped_reducescatter`; what it returns has ended."""
    return _ended(grouped_reducescatter(*args, **kwargs))


def poll(handle: Handle) -> bool:
    """Return whether `synchronize` returns at once."""
    return handle.is_completed()


def synchronize(handle: Handle) -> Any:
    """Return the result of what an `async` function has begun, once it has ended."""
    return handle.wait()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks are here."""
    dist.barrier(group=group_of(process_set))


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return a rank's object; the rank is counted in the world."""
    return torch_collectives.broadcast_object(obj, root_rank, name=name, process_set=process_set)


def _ended(result: Any) -> Handle:
    return Handle((), lambda: result)


def _in_place(tensor: torch.Tensor, begun: Handle) -> Handle:
    def write() -> torch.Tensor:
        tensor.detach().copy_(begun.wait())
        return tensor

    return Handle((begun,), write)


def _together(begun: list[Handle]) -> Handle:
    return Handle(tuple(begun), lambda: [one.wait() for one in begun])
