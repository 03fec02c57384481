"""Reduces a tensor over the ranks, beside what the program does until it asks for the result.

Runs on: every rank. Collective: every rank of the process set must begin the same reductions in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api.process_sets import Op
from jupyter_ddl.horovod_api.torch_process_sets import group_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.horovod_api.process_sets import ProcessSet

_OF_TORCH = {
    Op.Average: dist.ReduceOp.SUM,
    Op.Sum: dist.ReduceOp.SUM,
    Op.Min: dist.ReduceOp.MIN,
    Op.Max: dist.ReduceOp.MAX,
    Op.Product: dist.ReduceOp.PRODUCT,
}


class Handle:
    """A collective that has begun: what Horovod's functions with `async` in their names return.

    Args:
        works: what torch.distributed does for it; nothing where it has ended.
        finish: makes its result, once these have ended.
    """

    def __init__(self, works: tuple[Any, ...], finish: Callable[[], Any]) -> None:
        self._works = works
        self._finish = finish
        self._results: tuple[Any, ...] = ()

    def is_completed(self) -> bool:
        """Return whether `wait` returns at once."""
        return all(work.is_completed() for work in self._works)

    def wait(self) -> Any:
        """Return its result, once it has ended."""
        if not self._results:
            for work in self._works:
                work.wait()
            self._works, self._results = (), (self._finish(),)
        return self._results[0]


def begin_allreduce(
    tensor: torch.Tensor,
    op: Op,
    prescale_factor: float,
    postscale_factor: float,
    compression: Any,
    process_set: ProcessSet,
    *,
    may_overwrite: bool = False,
) -> Handle:
    """Begin to reduce a tensor.

    Args:
        tensor: dense, on any device.
        op: how.
        prescale_factor: multiplies what is sent.
        postscale_factor: multiplies the result.
        compression: Horovod's, of what travels.
        process_set: whose ranks.
        may_overwrite: the tensor need not stay as it is; else the result is another one.

    Raises:
        InvalidInput: the operation is Horovod's alone.
    """
    if op is Op.Adasum:
        raise InvalidInput(
            "Adasum is Horovod's own, and torch.distributed exchanges here.", "op=hvd.Adasum", "Pass op=hvd.Average."
        )
    group, own = group_of(process_set), tensor.detach()
    sent, context = compression.compress(own if prescale_factor == 1.0 else own * prescale_factor)
    place = sent.device
    is_ours = may_overwrite or sent.data_ptr() != own.data_ptr()
    reduced = on_device(sent.contiguous() if is_ours else sent.clone(memory_format=torch.contiguous_format))
    work = dist.all_reduce(reduced, op=_OF_TORCH[op], group=group, async_op=True)
    factor = postscale_factor / (process_set.size() if op is Op.Average else 1)

    def finish() -> torch.Tensor:
        answer: torch.Tensor = compression.decompress(reduced.to(place), context)
        if factor == 1.0:
            return answer
        return answer.mul_(factor) if answer.is_floating_point() else (answer * factor).to(own.dtype)

    return Handle((work,), finish)


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor on a device whose tensors the group of all ranks takes."""
    config = str(dist.get_backend_config())
    if f"{tensor.device.type}:" in config:
        return tensor
    return tensor.to("cuda" if "cuda:" in config else "cpu")
