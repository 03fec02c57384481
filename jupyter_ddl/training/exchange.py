"""The gradients' way over the ranks.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.collectives import require_horovod


@dataclass(frozen=True)
class Exchange:
    """How gradients are reduced over the ranks.

    Attributes:
        op: Average or Sum.
        compression: what travels: gradients as they are, or as float16.
        name: the name scope of the operations, as Horovod's timeline shows them.
    """

    op: Any = hvd.Average
    compression: Any = hvd.Compression.none
    name: str = "DistributedOptimizer"

    def reduce(self, gradients: list[Any]) -> list[Any]:
        """Return the gradients reduced over all ranks; None stays None.

        Collective: every rank must call this, with gradients of the same variables in the same order.

        Args:
            gradients: tensors, tf.IndexedSlices (of an embedding), or None (a variable that the loss does not reach).

        Raises:
            InvalidInput: Horovod is not initialised, or the step is compiled by XLA.
        """
        require_horovod("A distributed optimizer")
        _refuse_xla()
        with tf.name_scope(self.name):
            return self._reduce(gradients)

    def _reduce(self, gradients: list[Any]) -> list[Any]:
        reduced: list[Any] = [None] * len(gradients)
        for name, positions in _groups(gradients).items():
            group = [gradients[i] for i in positions]
            reduce = self._reduce_slices if isinstance(group[0], tf.IndexedSlices) else self._reduce_dense
            for i, answer in zip(positions, reduce(group, name), strict=True):
                reduced[i] = answer
        return reduced

    def _reduce_dense(self, group: list[Any], name: str) -> Any:
        return hvd.grouped_allreduce(group, op=self.op, compression=self.compression, name=name)

    def _reduce_slices(self, group: list[Any], name: str) -> list[Any]:
        """Put the rows of every rank one after another: one process with the global batch has just these.

        Horovod's own way for slices names its operations by the tensors' names, and among dense gradients gives them
        the shape of another one.
        Source: horovod 0.28.1, horovod/tensorflow/__init__.py, grouped_allreduce (`zip(new_values, ..., tensors)`).
        """
        values = hvd.grouped_allgather([slices.values for slices in group], name=f"{name}_values")
        indices = hvd.grouped_allgather([slices.indices for slices in group], name=f"{name}_indices")
        if self.op == hvd.Average:
            values = [rows / tf.cast(hvd.size(), rows.dtype) for rows in values]
        return [
            tf.IndexedSlices(rows, index, slices.dense_shape)
            for rows, index, slices in zip(values, indices, group, strict=True)
        ]


def _groups(gradients: list[Any]) -> dict[str, list[int]]:
    """Return name -> positions of the gradients that travel together: a grouped operation takes one dtype.

    Ranks find each other's tensors by name. Left to itself Horovod takes the name of a tensor, which holds Keras's
    automatic layer names ("dense_7"): a rank that has made one model more would then wait for ever. So the names come
    from here. TensorFlow makes them unique within the step.
    """
    groups: dict[str, list[int]] = {}
    for i, gradient in enumerate(gradients):
        if isinstance(gradient, tf.IndexedSlices):
            groups.setdefault(f"slices_{gradient.dtype.name}_{gradient.indices.dtype.name}", []).append(i)
        elif gradient is not None:
            groups.setdefault(f"gradients_{gradient.dtype.name}", []).append(i)
    return groups


def _refuse_xla() -> None:
    # TensorFlow has no public question for this; its own libraries ask the same function.
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if graph is not None and control_flow_util.GraphOrParentsInXlaContext(graph):
        raise InvalidInput(
            "XLA cannot compile the exchange of gradients.",
            "a training step with jit_compile=True (Keras's default where it sees a GPU)",
            "Pass jit_compile=False to model.compile, or BroadcastGlobalVariablesCallback, which does, to model.fit.",
        )
