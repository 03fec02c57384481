"""Reduces gradients over the ranks.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine import rank_state
from jupyter_ddl.training import step
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, global_process_set, hvd, ops
from jupyter_ddl.training.optimizer.groups import Groups, split
from jupyter_ddl.training.optimizer.tried import Tried
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
            PyTorch has no use for it.
        device_sparse: likewise for IndexedSlices.
        on_drift: what `fit` does where the ranks' weights differ, "stop" or "warn"; None for the cell's own option.
        same_batches: ranks are meant to train on the same batches.
        on_trial: it has what `jupyter ddl tune` tries in place of what the program says.
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
    on_trial: bool = False

    @property
    def op_name(self) -> str:
        """Which reduction it is: "Average", "Sum" or "Adasum"."""
        return "Average" if self.op == hvd.Average else "Sum" if self.op == hvd.Sum else "Adasum"

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
        tried = rank_state.here().part(Tried)
        if tried.changes and not self.on_trial:
            return replace(self, **tried.changes, on_trial=True).reduce(gradients, variables)
        clock = step.clock()
        with ops.naming(self.name) as scope:
            dense = [self._made_dense(gradient) for gradient in gradients]
            if clock is not None:
                return clock.exchange(dense, lambda: self._reduce(dense, variables, scope))
            reduced = self._reduce(dense, variables, scope)
        if not step.is_being_made():
            comparison_of_loops().look(dense, reduced, self)
        return reduced

    def _require_ranks(self) -> None:
        require_horovod("A distributed optimizer or tape")
        ops.require_exchangeable()
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
            for i, answer in zip(positions, ops.reduce_group(self, group, f"{prefix}.{name}"), strict=True):
                reduced[i] = answer
        return reduced

    def _made_dense(self, gradient: Any) -> Any:
        """Return slices as a dense tensor, where they are sent as one.

        Adasum is defined on whole tensors; and rows that each rank has are one row each, as in one process.
        """
        is_dense = self.sparse_as_dense or self.op == hvd.Adasum or ops.has_same_rows_always(gradient)
        return ops.densified(gradient) if is_dense else gradient


def comparison_of_loops() -> Any:
    """Return the module that finds ranks with equal gradients in a loop of the program's own."""
    if BACKEND == TENSORFLOW:
        from jupyter_ddl.training.consistency import same_gradients

        return same_gradients
    from jupyter_ddl.training.consistency import eager_same_gradients

    return eager_same_gradients
