"""Provides Horovod's collectives over torch.distributed, which return when they have ended.

On a GPU tensors go through NCCL, on the host through gloo.

Runs on: every rank. Collective, each of them but the questions: every rank (of the process set) must call it, in the
same order.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from jupyter_ddl.horovod_api.environment_ranks import cross_rank, local_rank, local_size
from jupyter_ddl.horovod_api.process_sets import Op, Plain, ProcessSet, global_process_set
from jupyter_ddl.horovod_api.torch_process_sets import group_of
from jupyter_ddl.horovod_api.torch_reductions import begin_allreduce, on_device

Average, Sum, Adasum, Min, Max, Product = Op


class _Half:
    """Sends floating point as float16."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return (tensor.half(), tensor.dtype) if tensor.is_floating_point() else (tensor, None)

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor if context is None else tensor.to(context)


class Compression:
    """What travels, by Horovod's names."""

    none = Plain
    fp16 = _Half


def cross_size() -> int:
    """Return how many hosts have a rank of this local rank."""
    return len({host for host, local in allgather_object((cross_rank(), local_rank())) if local == local_rank()})


def is_homogeneous() -> bool:
    """Return whether all hosts have equally many ranks. Collective."""
    return len(set(allgather_object(local_size()))) == 1


def gloo_built() -> bool:
    """Return whether this PyTorch has gloo."""
    return bool(dist.is_gloo_available())


def nccl_built() -> bool:
    """Return whether this PyTorch has NCCL."""
    return bool(dist.is_nccl_available())


def mpi_threads_supported() -> bool:
    """Return False: no MPI exchanges."""
    return False


def gloo_enabled() -> bool:
    """Return whether gloo exchanges."""
    return gloo_built()


mpi_built = mpi_enabled = ddl_built = ccl_built = cuda_built = rocm_built = mpi_threads_supported


def allreduce(
    tensor: torch.Tensor,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    op: Op = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: Any = Compression.none,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,  # noqa: ARG001 (Horovod's)
) -> torch.Tensor:
    """Return a tensor reduced over the ranks."""
    return begin_allreduce(tensor, op, prescale_factor, postscale_factor, compression, process_set).wait()


def allgather(
    tensor: torch.Tensor,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return all ranks' rows, in the order of the ranks."""
    group, place = group_of(process_set), tensor.device
    own = on_device(tensor.detach().contiguous())
    counts = allgather_object(int(own.shape[0]), process_set=process_set)
    padded = own.new_zeros((max(counts), *own.shape[1:]))
    padded[: own.shape[0]] = own
    every = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(every, padded, group=group)
    return torch.cat([rows[:count] for rows, count in zip(every, counts, strict=True)]).to(place)


def allgather_even(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Return all ranks' rows, of which each has as many."""
    group, place = group_of(process_set), tensor.device
    own = on_device(tensor.detach().contiguous())
    every = own.new_empty((len(own) * process_set.size(), *own.shape[1:]))
    dist.all_gather_into_tensor(every, own, group=group)
    return every.to(place)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return a rank's tensor; the rank is counted in the world."""
    group = group_of(process_set)
    sent = on_device(tensor.detach().clone(memory_format=torch.contiguous_format))
    dist.broadcast(sent, root_rank, group=group)
    return sent.to(tensor.device)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Return this rank's rows of the reduced tensor; the first ranks have one more where it does not divide evenly."""
    count = process_set.size()
    if len(tensor) % count == 0 and op in (Op.Average, Op.Sum) and tensor.is_floating_point():
        group, place = group_of(process_set), tensor.device
        sent = tensor.detach() if prescale_factor == 1.0 else tensor.detach() * prescale_factor
        sent = on_device(sent.contiguous())
        rows = sent.new_empty((len(sent) // count, *sent.shape[1:]))
        dist.reduce_scatter_tensor(rows, sent, group=group)
        return rows.to(place) * (postscale_factor / (count if op is Op.Average else 1))
    reduced = allreduce(
        tensor,
        op=op,
        process_set=process_set,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
    )
    return reduced[process_set.rows_of(len(reduced))]


def alltoall(
    tensor: torch.Tensor,
    splits: Any = None,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    ignore_name_scope: bool = False,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the rows that all ranks send to this one; with `splits`, also how many each has sent."""
    rows = process_set.rows_sent(len(tensor), splits)
    own = process_set.rank()
    # gloo has no such operation for rows of different numbers.
    every = allgather_object([part.cpu() for part in tensor.detach().split(rows)], process_set=process_set)
    parts = [sent[own] for sent in every]
    received = torch.cat(parts).to(tensor.device)
    return received if splits is None else (received, torch.tensor([len(part) for part in parts], dtype=torch.int32))


def allgather_object(
    obj: Any,
    session: Any = None,  # noqa: ARG001 (Horovod's)
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Return all ranks' objects, in the order of the ranks."""
    group = group_of(process_set)
    every: list[Any] = [None] * process_set.size()
    dist.all_gather_object(every, obj, group=group)
    return every


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,  # noqa: ARG001 (Horovod's)
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return a rank's object; the rank is counted in the world."""
    group = group_of(process_set)
    sent = [obj]
    dist.broadcast_object_list(sent, root_rank, group=group)
    return sent[0]


def sum_in_place(flat: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Sum a contiguous tensor over the ranks; return the sum, which may be the tensor itself."""
    group, place = group_of(process_set), flat.device
    summed = on_device(flat)
    dist.all_reduce(summed, group=group)
    return summed.to(place)
