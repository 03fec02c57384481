"""All ranks start from one rank's weights."""

from __future__ import annotations

from typing import Any

import keras

from jupyter_ddl.training.collectives import broadcast_variables, require_horovod, require_rank
from jupyter_ddl.training.optimizer import is_distributed, require_scaling_after_exchange


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Give all ranks the root rank's weights and optimizer state when training begins.

    Weights include BatchNormalization's moving averages. Random seeds stay each rank's own, so dropout differs.

    A model without an input shape has no weights until its first step, so it gets the root rank's after that step,
    as with stock Horovod. Give it a `keras.Input` to have all ranks take the first step from the same weights.

    The training step is not compiled by XLA, which has no kernel for Horovod's operations.

    Args:
        root_rank: whose weights win, e.g. the rank that loaded a checkpoint.

    Raises:
        InvalidInput: Horovod is not initialised, or there is no such rank.
    """

    def __init__(self, root_rank: int) -> None:
        super().__init__()
        require_horovod("BroadcastGlobalVariablesCallback")
        require_rank(root_rank)
        self.root_rank = root_rank
        self._done = False

    def set_model(self, model: Any) -> None:
        """Take the model's step out of XLA; Keras calls this before it makes the step."""
        super().set_model(model)
        optimizer = model.optimizer
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            require_scaling_after_exchange(optimizer)
        if is_distributed(optimizer) and model.jit_compile:
            model.jit_compile = False
            model.train_function = None

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Broadcast, if the model has its weights already."""
        self._done = self.model.built
        if self._done:
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Broadcast after the first step, if the model had no weights before."""
        if not self._done:
            self._done = True
            self._broadcast()

    def _broadcast(self) -> None:
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        broadcast_variables([*self.model.weights, *optimizer.variables], self.root_rank)
