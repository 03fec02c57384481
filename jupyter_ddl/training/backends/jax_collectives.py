"""Provides Horovod's API over JAX's processes: what `training` needs of it, and what programs call.

Inside of a step of `fit` an exchange is a part of the program. Elsewhere it is a small program of its own, and what
comes out is this rank's own array. Numbers of 64 bits, which JAX has not by default, travel as their bytes.

Runs on: every rank. Collective, each of them but the questions: every rank (of the process set) must call it, in the
same order.
"""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api.environment_ranks import cross_rank, local_rank, local_size, rank
from jupyter_ddl.horovod_api.process_sets import (
    Op,
    Plain,
    ProcessSet,
    global_process_set,
)
from jupyter_ddl.training.backends import jax_program
from jupyter_ddl.training.backends.jax_meshes import (
    AXIS,
    as_global,
    mesh_of,
    on_device,
    over_ranks,
    own,
)

Average, Sum, Adasum, Min, Max, Product = Op
_OF_NUMPY = {Op.Average: np.add, Op.Sum: np.add, Op.Min: np.minimum, Op.Max: np.maximum, Op.Product: np.multiply}
_OF_JAX = {Op.Average: jax.lax.psum, Op.Sum: jax.lax.psum, Op.Min: jax.lax.pmin, Op.Max: jax.lax.pmax}


class _Half:
    """Sends floating point as float16."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        return (
            (tensor.astype("float16"), tensor.dtype) if jnp.issubdtype(tensor.dtype, jnp.floating) else (tensor, None)
        )

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        return tensor if context is None else tensor.astype(context)


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
    """Return whether JAX exchanges between cores by gloo."""
    return True


def nccl_built() -> bool:
    """Return whether this rank's devices are GPUs, between which JAX exchanges by NCCL."""
    return bool(jax.default_backend() == "gpu")


def mpi_threads_supported() -> bool:
    """Return False: no MPI exchanges."""
    return False


def gloo_enabled() -> bool:
    """Return whether gloo exchanges."""
    return not nccl_built()


mpi_built = mpi_enabled = ddl_built = ccl_built = cuda_built = rocm_built = mpi_threads_supported


def allreduce(
    tensor: Any,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    op: Op = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: Any = Compression.none,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,  # noqa: ARG001 (Horovod's)
) -> Any:
    """Return an array reduced over the ranks."""
    if op is Op.Adasum:
        raise InvalidInput(
            "Adasum is Horovod's, and Keras on JAX exchanges by JAX.", "op=hvd.Adasum", "Pass op=hvd.Average."
        )
    scaled = tensor if prescale_factor == 1.0 else tensor * prescale_factor
    sent, context = compression.compress(scaled)
    answer = compression.decompress(_reduced(sent, op, process_set), context)
    factor = postscale_factor / (process_set.size() if op is Op.Average else 1)
    if factor == 1.0:
        return answer
    is_float = jnp.issubdtype(answer.dtype, jnp.floating)
    # As the array's own dtype: NumPy makes a float64 of a float32 scalar.
    return (answer * factor).astype(answer.dtype if is_float else tensor.dtype)


def sum_in_step(flat: Any, process_set: ProcessSet) -> Any:
    """Return the sum of an array over the ranks, as `allreduce` does."""
    return _reduced(flat, Sum, process_set)


def _reduced(value: Any, op: Op, process_set: ProcessSet) -> Any:
    if getattr(value, "dtype", None) == np.float16 and jax.default_backend() == "cpu":
        # JAX's gloo loses parts of some sums of float16 on 4 ranks (jax 0.10.2).
        return _reduced(value.astype("float32"), op, process_set).astype("float16")
    if jax_program.current() is not None:
        reduce = _OF_JAX.get(op)
        if reduce is None:
            return jnp.prod(jax_program.exchanged(value, lambda sent: jax.lax.all_gather(sent, AXIS)), axis=0)
        return jax_program.exchanged(jnp.asarray(value), lambda sent: reduce(sent, AXIS))
    _require_values(value)
    if isinstance(value, jax.Array) and op in _OF_JAX and value.dtype != bool:
        return _run(_OF_JAX[op], value, process_set)
    reduced = _OF_NUMPY[op].reduce(_rows(np.asarray(value), process_set), axis=0, dtype=value.dtype)
    return jnp.asarray(reduced) if isinstance(value, jax.Array) else reduced


def allgather(
    tensor: Any,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return all ranks' rows, in the order of the ranks."""
    _require_values(tensor)
    every = allgather_object(np.asarray(tensor), process_set=process_set)
    return _like(tensor, np.concatenate(every))


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return a rank's array; the rank is counted in the world."""
    _require_values(tensor)
    array = np.asarray(tensor)
    data = np.ascontiguousarray(array).tobytes()
    words = np.frombuffer(data + bytes(-len(data) % 4), np.uint32)
    # A sum of whole numbers, to which the others add zeros: every bit is the root's.
    mine = words if rank() == root_rank else np.zeros_like(words)
    mesh = mesh_of(process_set)
    summed = np.asarray(_run(jax.lax.psum, on_device(mesh, mine), process_set))
    return _like(tensor, np.frombuffer(summed.tobytes()[: len(data)], array.dtype).reshape(array.shape).copy())


def reducescatter(
    tensor: Any,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Return this rank's rows of the reduced array; the first ranks have one more where it does not divide evenly."""
    reduced = allreduce(
        tensor,
        op=op,
        process_set=process_set,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
    )
    return reduced[process_set.rows_of(len(reduced))]


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    ignore_name_scope: bool = False,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the rows that all ranks send to this one; with `splits`, also how many each has sent."""
    _require_values(tensor)
    rows = process_set.rows_sent(len(tensor), splits)
    sent = np.split(np.asarray(tensor), np.cumsum(rows)[:-1])
    parts = [of_rank[process_set.rank()] for of_rank in allgather_object(sent, process_set=process_set)]
    received = _like(tensor, np.concatenate(parts))
    return received if splits is None else (received, np.array([len(part) for part in parts], np.int32))


def allgather_object(
    obj: Any,
    session: Any = None,  # noqa: ARG001 (Horovod's)
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Return all ranks' objects, in the order of the ranks."""
    if process_set.size() == 1:
        return [obj]
    data = pickle.dumps(obj)
    lengths = _rows(np.array([len(data)], np.int64), process_set)[:, 0]
    # A power of two, so that few programs are compiled.
    padded = np.zeros(1 << int(lengths.max() - 1).bit_length(), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    every = _rows(padded, process_set)
    return [pickle.loads(row[:length].tobytes()) for row, length in zip(every, lengths, strict=True)]  # noqa: S301


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,  # noqa: ARG001 (Horovod's)
    name: str | None = None,  # noqa: ARG001 (Horovod's)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return a rank's object; the rank is counted in the world."""
    every = allgather_object(obj if rank() == root_rank else None, process_set=process_set)
    return every[root_rank if process_set.ranks is None else process_set.ranks.index(root_rank)]


def _rows(array: Any, process_set: ProcessSet) -> Any:
    """Return an array of NumPy's with a row for each rank: arrays of one shape and dtype, as their bytes."""
    data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    mesh = mesh_of(process_set)
    every = np.asarray(_run(jax.lax.all_gather, on_device(mesh, data), process_set))
    return np.frombuffer(every.tobytes(), array.dtype).reshape(len(every), *array.shape)


def _run(collective: Any, value: Any, process_set: ProcessSet) -> Any:
    """Return this rank's result of a collective of JAX's over a mesh."""
    mesh = mesh_of(process_set)
    return own(over_ranks(collective, mesh)(as_global(mesh, on_device(mesh, value))))


def _like(tensor: Any, array: Any) -> Any:
    """Return an array of JAX's where the other one is."""
    return jnp.asarray(array) if isinstance(tensor, jax.Array) else array


def _require_values(value: Any) -> None:
    """Raise where a collective is traced in a function of the program's own, in which it would not run.

    Raises:
        InvalidInput: it is.
    """
    if isinstance(value, jax.core.Tracer):
        raise InvalidInput(
            "Horovod's collectives, and the updates of an hvd.DistributedOptimizer, run between functions that JAX "
            "compiles, and in the steps of fit and train_on_batch.",
            "a call inside of jax.jit or jax.grad",
            "Take the gradients in one compiled function, exchange them by hvd.allreduce, and update in another; or "
            "call fit.",
        )
