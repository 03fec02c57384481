"""Horovod's Keras API, on Keras 3: on the ranks, `import jupyter_ddl.keras as hvd`.

Runs on: every rank. What takes part in a collective must be called on every rank, in the same order.
"""

from horovod.tensorflow import (
    Average,
    Compression,
    Sum,
    allgather_object,
    broadcast_object,
    cross_rank,
    cross_size,
    cuda_built,
    init,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    nccl_built,
    rank,
    shutdown,
    size,
)

from jupyter_ddl.training import callbacks
from jupyter_ddl.training.collectives import allgather, allreduce, broadcast, broadcast_variables
from jupyter_ddl.training.optimizer import DistributedOptimizer
from jupyter_ddl.training.sync import RanksOutOfSync, check_in_sync, weights_checksum

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "RanksOutOfSync",
    "Sum",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "check_in_sync",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "nccl_built",
    "rank",
    "shutdown",
    "size",
    "weights_checksum",
]
