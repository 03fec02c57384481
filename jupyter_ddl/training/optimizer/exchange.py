"""Reduces gradients over the ranks.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.mpi_ops import global_process_set, grouped_allgather
from tensorflow.python.ops import control_flow_util

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training import step
from jupyter_ddl.training.consistency import same_gradients
from jupyter_ddl.training.optimizer.groups import Groups, split
from jupyter_ddl.training.requirements import require_horovod, require_member

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Exchange:
    """How gradients are reduced over the ranks.

    Attributes:
        op: Average, Sum or Adasum.
        compression: what travels: gradients as they are, or as float16.
        name: the name scope of the operations, as Horovod's timeline shows them.
        sparse_as_dense: IndexedSlices travel as the dense tensors that they stand for.
        predivide: an Average divides by this before the sum, and by world_size / this after it.
        groups: which gradients travel together; see `groups.split`.
        process_set: the ranks that take part.
        device_dense: TensorFlow's device for the reduction of dense gradients; "" leaves it to TensorFlow.
        device_sparse: likewise for IndexedSlices.
        on_drift: what `fit` does where the ranks' weights differ, "stop" or "warn"; None for the cell's own option.
        same_batches: ranks are meant to train on the same batches.
    """

    op: Any = hvd.Average
    compression: Any = hvd.Compression.none
    name: str = "DistributedOptimizer"
    sparse_as_dense: bool = False
    predivide: float = 1.0
    groups: Groups = None
    process_set: Any = global_process_set
    device_dense: str = ""
    device_sparse: str = ""
    on_drift: str | None = None
    same_batches: bool = False

    def weighed(self, gradients: Sequence[Any]) -> list[Any]:
        """Return this rank's gradients as it puts them into the exchange; see `step.weighed_gradients`.

        With several backward passes a step, at each of them: ranks may run out of batches between two.

        Collective: every rank of the process set must call this.

        Raises:
            InvalidInput: as `reduce`.
        """
        self._require_ranks()
        return step.weighed_gradients(list(gradients), self)

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the gradients reduced over all ranks; None stays None.

        Collective: every rank of the process set must call this, with gradients of the same variables in the same
        order.

        Args:
            gradients: as `weighed` gives them: tensors, tf.IndexedSlices (of an embedding), or None (a variable that
                the loss does not reach).
            variables: what they are gradients of; only `groups` looks at them.

        Raises:
            InvalidInput: Horovod is not initialised, the step is compiled by XLA, or this rank is not in the process
                set.
        """
        self._require_ranks()
        clock = step.clock()
        with tf.name_scope(self.name) as scope:
            dense = [self._made_dense(gradient) for gradient in gradients]
            if clock is not None:
                return clock.exchange(dense, lambda: self._reduce(dense, variables, scope))
            reduced = self._reduce(dense, variables, scope)
        if not step.is_being_made():
            same_gradients.look(dense, reduced, self)
        return reduced

    def _require_ranks(self) -> None:
        require_horovod("A distributed optimizer or tape")
        _refuse_xla()
        require_member(self.process_set, "A distributed optimizer or tape")

    def _reduce(self, gradients: list[Any], variables: Sequence[Any], scope: str) -> list[Any]:
        """Reduce group by group, under names that do not depend on where the step is called.

        By default Horovod's names hold the path of the call, which differs between a step of `fit` and the same step
        of a rank that has no batch left. TensorFlow makes the scope unique among the optimizers of a step.
        """
        prefix = scope.rstrip("/").replace("/", ".")
        reduced: list[Any] = [None] * len(gradients)
        for name, positions in split(gradients, variables, self.groups).items():
            group = [gradients[i] for i in positions]
            reduce = self._reduce_slices if isinstance(group[0], tf.IndexedSlices) else self._reduce_dense
            for i, answer in zip(positions, reduce(group, f"{prefix}.{name}"), strict=True):
                reduced[i] = answer
        return reduced

    def _reduce_dense(self, group: list[Any], name: str) -> Any:
        options: dict[str, Any] = {
            "op": self.op,
            "compression": self.compression,
            "process_set": self.process_set,
            "device_dense": self.device_dense,
            "ignore_name_scope": True,
        }
        if self.op == hvd.Average:
            # Horovod's core divides by the size after the sum.
            options |= {"prescale_factor": 1.0 / self.predivide, "postscale_factor": self.predivide}
        if len(group) == 1 or self.op == hvd.Adasum:
            # Adasum weighs each tensor by its own norm, and its operation takes one at a time.
            return [hvd.allreduce(tensor, name=f"{name}_{i}", **options) for i, tensor in enumerate(group)]
        return hvd.grouped_allreduce(group, name=name, **options)

    def _reduce_slices(self, group: list[Any], name: str) -> list[Any]:
        """Concatenate the rows of every rank: one process with the global batch has just these.

        Horovod's own reduction of slices names its operations by the tensors' names, and among dense gradients gives
        them the shape of another one.
        Source: horovod 0.28.1, horovod/tensorflow/__init__.py, grouped_allreduce (`zip(new_values, ..., tensors)`).
        """
        where = {"process_set": self.process_set, "ignore_name_scope": True}
        with tf.device(self.device_sparse):
            sent = [self.compression.compress(slices.values) for slices in group]
            gathered = grouped_allgather([rows for rows, _ in sent], name=f"{name}_values", **where)
            indices = grouped_allgather([slices.indices for slices in group], name=f"{name}_indices", **where)
        values = [self.compression.decompress(rows, context) for rows, (_, context) in zip(gathered, sent, strict=True)]
        if self.op == hvd.Average:
            values = [rows / tf.cast(self.process_set.size(), rows.dtype) for rows in values]
        return [
            tf.IndexedSlices(rows, index, slices.dense_shape)
            for rows, index, slices in zip(values, indices, group, strict=True)
        ]

    def _made_dense(self, gradient: Any) -> Any:
        """Return slices as a dense tensor, where they are sent as one: Adasum is defined on whole tensors."""
        is_dense = self.sparse_as_dense or self.op == hvd.Adasum
        return tf.convert_to_tensor(gradient) if is_dense and isinstance(gradient, tf.IndexedSlices) else gradient


def _refuse_xla() -> None:
    # TensorFlow has no public question for this; its own libraries ask the same function.
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if graph is not None and control_flow_util.GraphOrParentsInXlaContext(graph):
        raise InvalidInput(
            "XLA cannot compile the exchange of gradients.",
            "a tf.function of your own with jit_compile=True around the optimizer's apply or the tape's gradient",
            "Compile the forward and backward pass alone, and exchange outside it.",
        )
