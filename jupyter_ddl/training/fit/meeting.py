"""Ranks with fewer batches, or that stop early, wait for the others at the end of the epoch, and take their weights.

A rank that waits takes part in the others' exchanges with zeros (Horovod's join), so none waits for it for ever; it
makes no updates meanwhile, so afterwards it gets the weights of a rank that did.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf
from horovod.tensorflow.mpi_ops import global_process_set

from jupyter_ddl.training.collectives import broadcast_variables
from jupyter_ddl.training.optimizer import trained_together


class Meeting(keras.callbacks.Callback):
    """Where all ranks meet before validation and before the user's callbacks of the epoch's end.

    Args:
        process_set: the ranks that train together. Horovod's join is one of all ranks, so ranks of a smaller process
            set do not meet: they must have equally many batches.
    """

    def __init__(self, process_set: Any) -> None:
        super().__init__()
        self._joins = process_set is global_process_set
        self._met = True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Begin an epoch in which the ranks have not met."""
        self._met = not self._joins

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Meet before the epoch's validation, which must see the weights that all ranks have."""
        self._meet()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Meet before what the user's callbacks do together."""
        self._meet()

    def _meet(self) -> None:
        if self._met:
            return
        self._met = True
        hvd.join()
        optimizer = self.model.optimizer
        mine = np.array([int(optimizer.iterations.numpy())])
        steps = hvd.allgather(tf.constant(mine), name="steps_at_the_meeting").numpy()
        if (steps != steps[0]).any():
            shared = trained_together(optimizer, self.model.trainable_variables)
            broadcast_variables([*shared, *optimizer.variables], int(steps.argmax()))
