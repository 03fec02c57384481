"""Sets the learning rate by a schedule in epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.optimizer.learning_rate import fewest_steps, last_own_step, set_rate, settable_rate
from jupyter_ddl.training.spellings import tell_older_spelling

if TYPE_CHECKING:
    from collections.abc import Callable


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Set the learning rate to `initial_lr * multiplier(epoch)` from `start_epoch` to before `end_epoch`.

    `logs["lr"]` has the learning rate at the end of each epoch.

    Args:
        initial_lr: the learning rate that is multiplied; None, as in older Horovod, for the optimizer's own when
            training begins.
        multiplier: a function of the epoch, or a number m that stands for `m ** (epoch - start_epoch)`.
        start_epoch: the first epoch, counted from 0.
        end_epoch: the epoch before which to stop; None for never.
        staircase: set it once an epoch, of which `multiplier` gets the number. If false, set it before each step, and
            `multiplier` gets `epoch + step / steps_per_epoch`.
        momentum_correction: SGD and RMSprop keep their momentum in proportion to the learning rate.
        steps_per_epoch: for `staircase=False`; by default what Keras knows of the data.

    Raises:
        InvalidInput: there is no multiplier. When training begins: the learning rate cannot be set, or the number of
            steps in an epoch is not known.

    Example:
        >>> def tenth(epoch):
        ...     return 0.1 if epoch >= 1 else 1.0
        >>> drop = hvd.callbacks.LearningRateScheduleCallback(initial_lr=0.02, multiplier=tenth)
        >>> history = model.fit(x, y, epochs=2, callbacks=[drop], verbose=0)
        >>> [round(float(rate), 4) for rate in history.history["lr"]][1:]
        [0.002]
    """

    def __init__(
        self,
        initial_lr: float | int | None = None,
        multiplier: float | Callable[[Any], float] | None = None,
        start_epoch: int = 0,
        end_epoch: float | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if multiplier is None:
            raise InvalidInput(
                f"{type(self).__name__} needs a multiplier.",
                "multiplier=None",
                "Pass a function of the epoch, or a number.",
            )
        self.initial_lr = initial_lr
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Find what the schedule needs. Collective: every rank must call this.

        Raises:
            InvalidInput: the learning rate cannot be set, or the number of steps in an epoch is not known.
        """
        rate = settable_rate(self.model.optimizer, type(self).__name__)
        if self.initial_lr is None:
            self.initial_lr = float(rate.numpy())
            name = type(self).__name__
            tell_older_spelling(f"{name} without initial_lr", f"{name}(initial_lr={self.initial_lr:g}, ...)")
        if not self.staircase:
            self.steps_per_epoch = self._known_steps()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Note the epoch."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Set the learning rate, where it is due."""
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if not self.staircase:
            assert self.steps_per_epoch is not None
            step = last_own_step(batch, self.steps_per_epoch, self.model.steps_per_execution)
            self._set(self.current_epoch + step / self.steps_per_epoch)
        elif batch == 0:
            self._set(self.current_epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Log the learning rate."""
        if logs is not None:
            logs["lr"] = self._rate()

    def _set(self, epoch: float) -> None:
        assert self.initial_lr is not None
        new = self.initial_lr * float(self.multiplier(epoch))
        optimizer = self.model.optimizer
        rate = settable_rate(optimizer, type(self).__name__)
        set_rate(optimizer, rate, new, corrects_momentum=self.momentum_correction)

    def _rate(self) -> float:
        return float(settable_rate(self.model.optimizer, type(self).__name__).numpy())

    def _known_steps(self) -> int:
        steps = fewest_steps(self.model, self.steps_per_epoch or (self.params or {}).get("steps") or 0)
        if not steps:
            raise InvalidInput(
                f"{type(self).__name__} needs to know how many steps an epoch has.",
                "data of unknown length",
                f"Pass steps_per_epoch to fit, or to {type(self).__name__}.",
            )
        return steps
