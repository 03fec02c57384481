"""Provides collectives on values and on Keras variables, as `horovod.tensorflow.keras` spells them.

Runs on: every rank. Collective, each of them: every rank (of the process set) must call it, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import global_process_set, hvd, ops
from jupyter_ddl.training.requirements import require_horovod, require_member, require_root
from jupyter_ddl.training.spellings import tell_older_spelling

if TYPE_CHECKING:
    from collections.abc import Iterable


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Any = None,
    compression: Any = hvd.Compression.none,
    process_set: Any = global_process_set,
) -> Any:
    """Return the average (or what `op` says) of every rank's value, as an eager tensor.

    Args:
        value: a number, array, variable or tensor (also tf.IndexedSlices), of the same shape and dtype on all ranks.
            A Python int is averaged as a float64, where an integer tensor would be cut off to an integer.
        name: of the operation in a graph, for Horovod's timeline; an eager one has none.
        average: older Horovod's form of `op`: True for Average, False for Sum.
        prescale_factor: what the value is multiplied by before.
        postscale_factor: what the result is multiplied by.
        op: Average (the default), Sum, Adasum, Min, Max or Product.
        compression: `Compression.none`, or `Compression.fp16` to send float16.
        process_set: the ranks that take part.

    Raises:
        InvalidInput: Horovod is not initialised; both `op` and `average` are given; this rank is not in the set.

    Example:
        >>> float(hvd.allreduce(hvd.rank(), op=hvd.Max)) == hvd.size() - 1
        True
    """
    require_horovod("hvd.allreduce")
    require_member(process_set, "hvd.allreduce")
    op = _operation(op, average)
    return hvd.allreduce(
        _averageable(value) if op == hvd.Average else ops.tensor(value),
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        compression=compression,
        process_set=process_set,
    )


def allgather(value: Any, name: str | None = None, process_set: Any = global_process_set) -> Any:
    """Return every rank's value, concatenated in the order of the ranks along the first dimension.

    Args:
        value: an array, variable or tensor; its first dimension may differ between ranks. Of a number there is one
            a rank, so the result is a vector.
        name: of the operation in a graph, for Horovod's timeline; an eager one has none.
        process_set: the ranks that take part.

    Raises:
        InvalidInput: Horovod is not initialised; this rank is not in the process set.

    Example:
        >>> hvd.allgather([hvd.rank()]).numpy().tolist() == list(range(hvd.size()))
        True
    """
    require_horovod("hvd.allgather")
    require_member(process_set, "hvd.allgather")
    tensor = ops.tensor(value)
    if ops.rank_of(tensor) == 0:
        tensor = tensor[None]
    return hvd.allgather(tensor, name=name, process_set=process_set)


def broadcast(value: Any, root_rank: int, name: str | None = None, process_set: Any = global_process_set) -> Any:
    """Return the root rank's value.

    Args:
        value: a number, array, variable or tensor, of the same shape and dtype on all ranks.
        root_rank: whose value it is; a rank of the world, also where a process set is given.
        name: of the operation in a graph, for Horovod's timeline; an eager one has none.
        process_set: the ranks that take part.

    Raises:
        InvalidInput: Horovod is not initialised; there is no such rank; a rank is not in the process set.

    Example:
        >>> int(hvd.broadcast(hvd.rank() + 7, root_rank=0))
        7
    """
    require_horovod("hvd.broadcast")
    require_root(root_rank, process_set, "hvd.broadcast")
    return hvd.broadcast(ops.tensor(value), root_rank, name=name, process_set=process_set)


def reducescatter(
    value: Any,
    name: str | None = None,
    op: Any = hvd.Average,
    process_set: Any = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Return this rank's part of the reduced value: its first dimension is dealt out in the order of the ranks.

    Where it does not divide evenly, the first ranks get one row more.

    Args:
        value: an array, variable or tensor of at least one dimension, of the same shape and dtype on all ranks.
        name: of the operation in a graph, for Horovod's timeline; an eager one has none.
        op: Average or Sum.
        process_set: the ranks that take part.
        prescale_factor: what the value is multiplied by before.
        postscale_factor: what the result is multiplied by.

    Raises:
        InvalidInput: Horovod is not initialised; the value is a scalar; this rank is not in the process set.

    Example:
        >>> own = hvd.reducescatter(np.ones(hvd.size(), "float32"), op=hvd.Sum)
        >>> own.numpy().tolist() == [hvd.size()]
        True
    """
    require_horovod("hvd.reducescatter")
    require_member(process_set, "hvd.reducescatter")
    tensor = ops.tensor(value)
    if ops.rank_of(tensor) == 0:
        raise InvalidInput(
            "hvd.reducescatter deals out the rows of its value.", "a scalar", "Pass an array, or use hvd.allreduce."
        )
    return hvd.reducescatter(
        tensor,
        name=name,
        op=op,
        process_set=process_set,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
    )


def alltoall(
    value: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = global_process_set,
) -> Any:
    """Send each rank its slices of the value, and return those that the ranks sent to this one.

    Args:
        value: an array, variable or tensor of at least one dimension.
        splits: how many rows go to each rank; by default all get the same number.
        name: of the operation in a graph, for Horovod's timeline; an eager one has none.
        ignore_name_scope: leave TensorFlow's name scopes out of that name.
        process_set: the ranks that take part.

    Returns:
        The rows received, in the order of the ranks; where `splits` is given, a pair with how many each has sent.

    Raises:
        InvalidInput: Horovod is not initialised; this rank is not in the process set.

    Example:
        >>> received = hvd.alltoall(np.full(hvd.size(), hvd.rank()))
        >>> received.numpy().tolist() == list(range(hvd.size()))
        True
    """
    require_horovod("hvd.alltoall")
    require_member(process_set, "hvd.alltoall")
    if splits is not None:
        splits = ops.cast(ops.tensor(splits), "int32")  # NumPy's integers are int64, which Horovod's operation refuses
    return hvd.alltoall(
        ops.tensor(value), splits=splits, name=name, ignore_name_scope=ignore_name_scope, process_set=process_set
    )


def join() -> Any:
    """Declare that this rank has no more data, wait until all ranks have done so, and return the last that did.

    Meanwhile this rank adds zeros to the allreduces of the others.

    Raises:
        InvalidInput: Horovod is not initialised; Keras is on PyTorch or JAX.

    Example:
        >>> for _ in range(1 + hvd.rank()):  # each rank has another number of batches
        ...     total = hvd.allreduce(1.0, op=hvd.Sum)
        >>> int(hvd.join()) in range(hvd.size())
        True
    """
    require_horovod("hvd.join")
    return ops.join()


def barrier(process_set: Any = global_process_set) -> None:
    """Wait until every rank has called this.

    Horovod 0.28.1 has no such operation for TensorFlow: this is an allreduce of one number.

    Raises:
        InvalidInput: Horovod is not initialised; this rank is not in the process set.

    Example:
        >>> if hvd.rank() == 0:
        ...     np.save("x.npy", x)
        >>> hvd.barrier()  # the file is complete on every rank that sees it
    """
    require_horovod("hvd.barrier")
    require_member(process_set, "hvd.barrier")
    hvd.allreduce(ops.tensor(0), op=hvd.Sum, name="barrier", process_set=process_set)


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: Any = global_process_set,
    inplace: bool = False,  # noqa: ARG001 (Horovod's)
) -> None:
    """Overwrite variables with the root rank's values.

    Args:
        variables: Keras or TensorFlow variables, the same on all ranks in the same order.
        root_rank: the rank that sends its values, counted in the world, also where a process set is given.
        process_set: the ranks that take part.
        inplace: Horovod's; unused.

    Raises:
        InvalidInput: Horovod is not initialised; there is no such rank; a rank is not in the process set.

    Example:
        >>> hvd.broadcast_variables(model.variables, root_rank=0)
        >>> hvd.broadcast_variables(model.optimizer.variables, root_rank=0)
    """
    require_horovod("hvd.broadcast_variables")
    require_root(root_rank, process_set, "hvd.broadcast_variables")
    ops.broadcast_into(list(variables), root_rank, process_set)


def broadcast_global_variables(root_rank: int) -> None:
    """Raise: what this broadcasts exists in TensorFlow 1's graphs only.

    Raises:
        InvalidInput: always.

    Example:
        >>> hvd.broadcast_variables(model.variables, root_rank=0)  # what to write in its place
    """
    raise InvalidInput(
        "hvd.broadcast_global_variables is for the graphs of TensorFlow 1, which have global variables.",
        f"root_rank={root_rank}, Keras {keras.__version__}",
        f"Pass hvd.callbacks.BroadcastGlobalVariablesCallback({root_rank}) to fit, or call "
        f"hvd.broadcast_variables(model.weights, {root_rank}).",
    )


def _operation(op: Any, average: bool | None) -> Any:
    if op is not None and average is not None:
        raise InvalidInput(
            "op replaces average in hvd.allreduce.", f"op={op}, average={average}", "Pass op alone, e.g. op=hvd.Sum."
        )
    if average is not None:
        tell_older_spelling(f"allreduce(average={average})", f"op=hvd.{'Average' if average else 'Sum'}")
        return hvd.Average if average else hvd.Sum
    return hvd.Average if op is None else op


def _averageable(value: Any) -> Any:
    """Return a tensor whose average over the ranks is what Python would give: ranks with 0 and 1 have 0.5."""
    return ops.cast(value, "float64") if isinstance(value, int) else ops.tensor(value)
