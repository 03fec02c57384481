"""Raises the learning rate over the first epochs from that of one process to that of all ranks."""

from __future__ import annotations

from typing import Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd
from jupyter_ddl.training.callbacks.learning_rate_schedule import LearningRateScheduleCallback
from jupyter_ddl.training.optimizer.learning_rate import warmup_growth
from jupyter_ddl.training.requirements import require_horovod


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raise the learning rate from `initial_lr / world_size` to `initial_lr` over the first epochs, at each step.

    With `epoch` counted in steps, so that it is 1 at the end of the first epoch:
    `lr = initial_lr / world_size * (epoch * (world_size - 1) / warmup_epochs + 1)`.

    Source: Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.2, gradual warmup.

    Args:
        initial_lr: the learning rate after the warm-up, which is that of one process times the number of ranks; None,
            as in older Horovod, for the optimizer's own when training begins. Older Horovod took `warmup_epochs` in
            this place: an integer that is not the optimizer's learning rate is that.
        warmup_epochs: how long it takes; 0 for no warm-up.
        momentum_correction: SGD and RMSprop keep their momentum in proportion to the learning rate.
        steps_per_epoch: by default what Keras knows of the data.
        verbose: 1 to have rank 0 say when the warm-up is over.

    Raises:
        InvalidInput: Horovod is not initialised; `warmup_epochs` is negative. When training begins: the learning rate
            cannot be set, or the number of steps in an epoch is not known.

    Example:
        >>> warm_up = hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.01 * hvd.size(), warmup_epochs=2)
        >>> history = model.fit(x, y, epochs=2, callbacks=[warm_up], verbose=0)
        >>> abs(float(model.optimizer.learning_rate) - 0.01 * hvd.size()) < 1e-6
        True
    """

    def __init__(
        self,
        initial_lr: float | int | None = None,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        require_horovod("LearningRateWarmupCallback")
        super().__init__(
            initial_lr,
            self._growth,
            start_epoch=0,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        if warmup_epochs < 0:
            raise InvalidInput("warmup_epochs must be at least 0.", warmup_epochs, "Pass e.g. 5.")
        self.warmup_epochs = warmup_epochs
        self.verbose = verbose

    def on_train_begin(self, logs: Any = None) -> None:
        """Find what the warm-up needs.

        Raises:
            InvalidInput: the learning rate cannot be set, or the number of steps in an epoch is not known.
        """
        first = self.initial_lr
        if isinstance(first, int) and first != self._rate():
            self.warmup_epochs = self.end_epoch = first
            self.initial_lr = None
        super().on_train_begin(logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Log the learning rate, and say when the warm-up is over."""
        super().on_epoch_end(epoch, logs)
        if self.verbose > 0 and hvd.rank() == 0 and epoch < self.warmup_epochs <= epoch + 1:
            print(f"\nEpoch {epoch + 1}: the learning rate has warmed up to {self._rate():g}.")

    def _growth(self, epoch: float) -> float:
        """Return the factor on the learning rate in the step that begins at `epoch`."""
        assert self.steps_per_epoch is not None
        # The end of the step, so that an epoch's last step has a round number, and the warm-up's last the whole rate.
        # Source: horovod 0.28.1, horovod/_keras/callbacks.py, LearningRateWarmupCallbackImpl
        epoch = min(epoch + self.model.steps_per_execution / self.steps_per_epoch, self.warmup_epochs)
        return warmup_growth(epoch, self.warmup_epochs, hvd.size())
