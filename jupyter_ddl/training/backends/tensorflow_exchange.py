"""Reduces gradients over the ranks by Horovod's operations of TensorFlow. Runs on: every rank."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.mpi_ops import grouped_allgather
from tensorflow.python.ops import control_flow_util

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends.site_exchange import site_exchanger


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
