"""Reduces gradients over the ranks by Horovod's operations of TensorFlow. Runs on: every rank."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.mpi_ops import grouped_allgather
from tensorflow.python.ops import control_flow_util

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends.site_exchange import site_exchanger

# What a function is given: a batch, or what was computed outside.
_INPUTS = ("Placeholder", "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile")
# The lengths of a batch, and not what is in it.
_OF_SHAPES = ("Shape", "ShapeN", "Size", "Rank")


def reduce_group(exchange: Any, group: list[Any], name: str) -> list[Any]:
    """Return gradients of one kind, reduced as an Exchange says. Collective."""
    exchanger = site_exchanger()
    if exchanger is not None:
        from jupyter_ddl.training.backends import tensorflow_site_exchange

        return tensorflow_site_exchange.reduce_group(exchanger, exchange, group)
    reduce = _reduce_slices if isinstance(group[0], tf.IndexedSlices) else _reduce_dense
    return reduce(exchange, group, name)


def require_exchangeable() -> None:
    """Raise where XLA would compile the exchange.

    Raises:
        InvalidInput: it would.
    """
    # TensorFlow has no public question for this; its own libraries ask the same function.
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if graph is not None and control_flow_util.GraphOrParentsInXlaContext(graph):
        raise InvalidInput(
            "XLA cannot compile the exchange of gradients.",
            "a tf.function of your own with jit_compile=True around the optimizer's apply or the tape's gradient",
            "Compile the forward and backward pass alone, and exchange outside it.",
        )


def has_same_rows_always(gradient: Any) -> bool:
    """Return whether a gradient is rows whose numbers no batch decides, such as those of a table of positions.

    One process has each of them once. The ranks' rows beside each other would be several of one number, which an
    optimizer that squares gradients squares one by one. Where nothing is traced it is not known.
    """
    if not isinstance(gradient, tf.IndexedSlices) or not tf.is_symbolic_tensor(gradient.indices):
        return False
    seen, following = set(), [gradient.indices.op]
    while following:
        operation = following.pop()
        if operation.type in _INPUTS or operation.op_def.is_stateful:
            return False
        if operation not in seen and operation.type not in _OF_SHAPES:
            following += [one.op for one in operation.inputs]
        seen.add(operation)
    return True


def _reduce_dense(exchange: Any, group: list[Any], name: str) -> list[Any]:
    options: dict[str, Any] = {
        "op": exchange.op,
        "compression": exchange.compression,
        "process_set": exchange.process_set,
        "device_dense": exchange.device_dense,
        "ignore_name_scope": True,
    }
    if exchange.op == hvd.Average:
        # Horovod's core divides by the size after the sum.
        options |= {"prescale_factor": 1.0 / exchange.predivide, "postscale_factor": exchange.predivide}
    if len(group) == 1 or exchange.op == hvd.Adasum:
        # Adasum weighs each tensor by its own norm, and its operation takes one at a time.
        return [hvd.allreduce(tensor, name=f"{name}_{i}", **options) for i, tensor in enumerate(group)]
    reduced: list[Any] = hvd.grouped_allreduce(group, name=name, **options)
    return reduced


def _reduce_slices(exchange: Any, group: list[Any], name: str) -> list[Any]:
    """Concatenate the rows of every rank: one process with the global batch has just these.

    Horovod's own reduction of slices names its operations by the tensors' names, and among dense gradients gives
    them the shape of another one.
    Source: horovod 0.28.1, horovod/tensorflow/__init__.py, grouped_allreduce (`zip(new_values, ..., tensors)`).
    """
    where = {"process_set": exchange.process_set, "ignore_name_scope": True}
    compression = exchange.compression
    with tf.device(exchange.device_sparse):
        sent = [compression.compress(slices.values) for slices in group]
        gathered = grouped_allgather([rows for rows, _ in sent], name=f"{name}_values", **where)
        indices = grouped_allgather([slices.indices for slices in group], name=f"{name}_indices", **where)
    values = [compression.decompress(rows, context) for rows, (_, context) in zip(gathered, sent, strict=True)]
    if exchange.op == hvd.Average:
        values = [rows / tf.cast(exchange.process_set.size(), rows.dtype) for rows in values]
    return [
        tf.IndexedSlices(rows, index, slices.dense_shape)
        for rows, index, slices in zip(values, indices, group, strict=True)
    ]
