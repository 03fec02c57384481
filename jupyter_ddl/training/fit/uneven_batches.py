"""Keeps ranks in step that have no batch left, or stop early, until all ranks reach the end of the epoch.

Such a rank continues to take steps with its last batch and no weight: the others' exchanges never wait for it, and it
makes the same updates as they do. In the first step for which no rank has a batch, all of them know that they are done.

Horovod's own join would do the first half, without the updates; and TensorFlow 2.21 runs its operation only once: it is
not marked as stateful, so the second call returns the first one's result.
Source: horovod 0.28.1, horovod/tensorflow/mpi_ops.cc, REGISTER_OP("HorovodJoin")

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.training.fit.first_batches import Batches
    from jupyter_ddl.training.step import Turn


class EpochBarrier(keras.callbacks.Callback):
    """Waits for all ranks: before validation, and before the user's callbacks at the end of the epoch.

    Args:
        turn: returns the turn of the model's steps.
        after_step: called after each step in which this rank only takes part.
        batches: what is known of the ranks' batches.
        process_set: the ranks that train together.
    """

    def __init__(
        self, turn: Callable[[], Turn], after_step: Callable[[], None], batches: Batches, process_set: Any
    ) -> None:
        super().__init__()
        self._turn = turn
        self._after_step = after_step
        self._wanted = batches.all_have
        self._size = process_set.size()
        self._has_waited = True
        self._steps_before = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Begin an epoch in which this rank has not waited."""
        self._has_waited = False
        self._steps_before = int(self._turn().steps.numpy())

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Free the batches of other trainings."""
        self._turn().last.free_others()

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Wait before the epoch's validation, which must see the weights that all ranks end with."""
        self._wait()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Wait before the collectives of the user's callbacks."""
        self._wait()

    def _wait(self) -> None:
        if self._has_waited:
            return
        self._has_waited = True
        turn = self._turn()
        took_all = turn.steps.numpy() - self._steps_before == self._wanted
        # Where a rank stopped early, the others took the last step without it.
        all_ended_together = took_all and turn.present.numpy() == self._size
        if not all_ended_together:
            with _state_kept(self.model):
                self._take_part(turn)

    def _take_part(self, turn: Turn) -> None:
        """Take steps without weight until no rank has a batch left."""
        batch = turn.last.batch
        if batch is None or not turn.steps.numpy():
            # TensorFlow may have traced a step, which had no batch to run with.
            raise InvalidInput(
                "Every rank must have at least one batch.",
                "none on this rank",
                "Give each rank a part of the data, or use fewer ranks.",
            )
        turn.active.assign(0.0)
        try:
            while True:
                before = self._trained()
                self._step(batch)
                if not turn.present.numpy():
                    break
            # Without a batch on any rank it was no step. Steps that know this skip the update themselves; the others,
            # where a rank stopped early unexpectedly, have made an update of zeros.
            for variable, value in before:
                variable.assign(value)
        finally:
            turn.active.assign(1.0)

    def _trained(self) -> list[tuple[Any, Any]]:
        """Return what a step changes, with its values; nothing where steps skip such an update themselves."""
        if self._wanted is None:
            return []
        changed = [*self.model.trainable_variables, *self.model.optimizer.variables]
        return [(variable, variable.numpy()) for variable in changed]

    def _step(self, batch: Any) -> None:
        ops.take_step(self.model, batch)
        self._after_step()


@contextmanager
def _state_kept(model: Any) -> Iterator[None]:
    """Restore the metrics, moving averages and random states that steps without weight change."""
    kept = [*model.non_trainable_variables, *model.metrics_variables]
    before = [variable.numpy() for variable in kept]
    yield
    for variable, value in zip(kept, before, strict=True):
        variable.assign(value)
