"""Horovod's Keras API, on Keras 3: on the ranks, `import jupyter_ddl.keras as hvd`.

It exports all that `horovod.tensorflow.keras` and `horovod.keras` 0.28.1 do, with their names and defaults, and what
custom loops need from `horovod.tensorflow`. Where Keras is on PyTorch the same names exchange by torch.distributed,
where it is on JAX by JAX, and no Horovod is needed. `import horovod.tensorflow.keras as hvd` gives this module, too,
once this one has been imported and on the ranks of a cluster.

Runs on: every rank. Functions with a collective must be called on every rank, in the same order.
"""

# Before our modules that import it: what a rank installs at that moment needs them whole.
import keras  # noqa: F401

from jupyter_ddl.errors import RanksOutOfSync
from jupyter_ddl.horovod_api.refused import Refused
from jupyter_ddl.rank.install import install
from jupyter_ddl.training import callbacks
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, hvd
from jupyter_ddl.training.collectives import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    broadcast_global_variables,
    broadcast_variables,
    join,
    reducescatter,
)
from jupyter_ddl.training.consistency.sync import check_in_sync, weights_checksum
from jupyter_ddl.training.initialisation import init
from jupyter_ddl.training.models.load_model import load_model
from jupyter_ddl.training.optimizer.distributed_optimizer import DistributedOptimizer, PartialDistributedOptimizer
from jupyter_ddl.training.timeline import start_timeline, stop_timeline

if BACKEND == TENSORFLOW:
    from horovod.tensorflow import (
        Adasum,
        Average,
        Compression,
        Max,
        Min,
        Product,
        Sum,
        allgather_object,
        broadcast_object,
        ccl_built,
        cross_rank,
        cross_size,
        cuda_built,
        ddl_built,
        gloo_built,
        gloo_enabled,
        is_homogeneous,
        is_initialized,
        local_rank,
        local_size,
        mpi_built,
        mpi_enabled,
        mpi_threads_supported,
        nccl_built,
        rank,
        rocm_built,
        shutdown,
        size,
    )
    from horovod.tensorflow.mpi_ops import ProcessSet, add_process_set, global_process_set, remove_process_set

    from jupyter_ddl.training import elastic
    from jupyter_ddl.training.optimizer.tape import DistributedGradientTape, PartialDistributedGradientTape
else:
    Adasum = hvd.Adasum
    Average = hvd.Average
    Compression = hvd.Compression
    Max = hvd.Max
    Min = hvd.Min
    ProcessSet = hvd.ProcessSet
    Product = hvd.Product
    Sum = hvd.Sum
    add_process_set = hvd.add_process_set
    allgather_object = hvd.allgather_object
    broadcast_object = hvd.broadcast_object
    ccl_built = hvd.ccl_built
    cross_rank = hvd.cross_rank
    cross_size = hvd.cross_size
    cuda_built = hvd.cuda_built
    ddl_built = hvd.ddl_built
    global_process_set = hvd.global_process_set
    gloo_built = hvd.gloo_built
    gloo_enabled = hvd.gloo_enabled
    is_homogeneous = hvd.is_homogeneous
    is_initialized = hvd.is_initialized
    local_rank = hvd.local_rank
    local_size = hvd.local_size
    mpi_built = hvd.mpi_built
    mpi_enabled = hvd.mpi_enabled
    mpi_threads_supported = hvd.mpi_threads_supported
    nccl_built = hvd.nccl_built
    rank = hvd.rank
    remove_process_set = hvd.remove_process_set
    rocm_built = hvd.rocm_built
    shutdown = hvd.shutdown
    size = hvd.size

    elastic = Refused(  # type: ignore[assignment]
        "hvd.elastic",
        f"hvd.elastic retries what Horovod has cut short, and Keras on {BACKEND} exchanges without Horovod.",
        "Pass --checkpoint DIR: the cell that runs again resumes after its last epoch.",
    )
    DistributedGradientTape = PartialDistributedGradientTape = Refused(
        "hvd.DistributedGradientTape",
        f"A GradientTape is TensorFlow's, and Keras is on {BACKEND}.",
        "Take the gradients as the backend does, and pass them to the apply of an hvd.DistributedOptimizer.",
    )

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "RanksOutOfSync",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "ccl_built",
    "check_in_sync",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "weights_checksum",
]

# `fit` of any model then does what a rank's should, and Horovod's own module names give this one.
install()
