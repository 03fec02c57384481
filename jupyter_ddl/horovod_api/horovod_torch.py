"""What `import horovod.torch as hvd` gives where Horovod is not built for PyTorch: its names, over torch.distributed.

Programs for `horovod.torch` 0.28.1 run as they are. Horovod finds by a tensor's name what belongs together; here ranks
begin the same collectives in the same order, as in any program of torch.distributed. Names are taken and not used.

Runs on: every rank. Collective, each of them but the questions.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from jupyter_ddl.horovod_api.environment_ranks import cross_rank, local_rank, local_size, rank, size
from jupyter_ddl.horovod_api.process_sets import (
    Op,
    ProcessSet,
    add_process_set,
    global_process_set,
    is_initialized,
    remove_process_set,
)
from jupyter_ddl.horovod_api.refused import Refused
from jupyter_ddl.horovod_api.torch_collectives import (
    Compression,
    allgather_object,
    ccl_built,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    is_homogeneous,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from jupyter_ddl.horovod_api.torch_functions import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    broadcast_object,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    poll,
    reducescatter,
    reducescatter_async,
    synchronize,
)
from jupyter_ddl.horovod_api.torch_optimizer import DistributedOptimizer
from jupyter_ddl.horovod_api.torch_process_sets import init, shutdown
from jupyter_ddl.horovod_api.torch_states import broadcast_optimizer_state, broadcast_parameters

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]

Average, Sum, Adasum, Min, Max, Product = Op
SyncBatchNorm = torch.nn.SyncBatchNorm
# What a failed collective raises.
HorovodInternalError = dist.DistError


elastic = Refused(
    "hvd.elastic",
    "hvd.elastic retries what Horovod has cut short, and torch.distributed exchanges here.",
    "Pass --checkpoint DIR, and loop over jupyter_ddl.torch.epochs: a cell that runs again resumes.",
)
join = Refused(
    "hvd.join()",
    "hvd.join is Horovod's own, and torch.distributed exchanges here.",
    "Give all ranks as many batches: DistributedSampler does; or use DDP in torch.distributed.algorithms.Join.",
)
sparse_allreduce_async = Refused(
    "hvd.sparse_allreduce_async", "Dense tensors are reduced here.", "Pass tensor.to_dense() to hvd.allreduce."
)
start_timeline = stop_timeline = Refused(
    "hvd.start_timeline",
    "Horovod's timeline is of its own exchange.",
    "Use %%distributed --timeline: PyTorch's profiler.",
)
