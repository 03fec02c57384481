"""Scales the learning rate for a larger batch where the optimizer uses it, and warms it up.

The optimizer's own learning rate stays what the program set, for code that reads, schedules, reduces or saves it.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.protocol import plan_texts
from jupyter_ddl.protocol.cell_options import GLOBAL, NONE
from jupyter_ddl.training.backends import ops
from jupyter_ddl.training.optimizer.distribution import is_updating
from jupyter_ddl.training.optimizer.extra_variables import RATE_FACTOR, WARMUP_EPOCHS, save_with
from jupyter_ddl.training.optimizer.learning_rate import fewest_steps, inner, last_own_step, set_rate, warmup_growth

if TYPE_CHECKING:
    from jupyter_ddl.protocol.cell_options import AutoOptions


@dataclass(frozen=True)
class Scaling:
    """How the learning rate changes.

    Attributes:
        how: "linear", "sqrt" or "none".
        factor: on the learning rate of one process, after the warm-up.
        warmup_epochs: how long it takes.
    """

    how: str
    factor: float
    warmup_epochs: float


def scaling_of(optimizer: Any, options: AutoOptions, size: int, epochs: int) -> Scaling:
    """Return how the learning rate changes on `size` ranks."""
    if options.batch == GLOBAL or size == 1:
        return Scaling(NONE, 1.0, 0.0)
    how = plan_texts.scaling_of(options.scale_lr, is_sgd=isinstance(inner(optimizer), keras.optimizers.SGD))
    if how == NONE:
        return Scaling(NONE, 1.0, 0.0)
    warmup = options.warmup_epochs
    if warmup is None:
        warmup = plan_texts.warmup_of(epochs)
    return Scaling(how, plan_texts.factor_of(how, size), warmup)


class ScaledRate:
    """The factor on one optimizer's learning rate.

    Attributes:
        steps_in_one: how many steps of one process are one here: a schedule counts the samples that were seen.
        warmup_epochs: how long the factor grows in the current fit; a checkpoint restores it.

    Args:
        optimizer: any Keras optimizer that makes updates itself.
    """

    def __init__(self, optimizer: Any) -> None:
        self._factor = ops.number(1.0, "float32", RATE_FACTOR)
        self.steps_in_one = ops.number(1, "int64", "steps_in_one")
        self.warmup_epochs = ops.number(0.0, "float64", WARMUP_EPOCHS)
        save_with(optimizer, [self._factor, self.warmup_epochs])
        self._optimizer = optimizer
        # Keras's property calls this method. Set on the object alone, past Keras's __setattr__, so that it is not
        # saved.
        object.__setattr__(optimizer, "_get_current_learning_rate", self._current)

    def set(self, factor: float) -> None:
        """Set the factor, and correct the optimizer's sums of earlier updates for it (learning_rate.set_rate)."""
        set_rate(self._optimizer, self._factor, factor, corrects_momentum=True)

    def reset(self) -> None:
        """Restore the optimizer's own rate, for updates outside of a `fit`."""
        if ops.can_be_read(self._optimizer):
            self.set(1.0)
        self._factor.assign(1.0)
        self.steps_in_one.assign(1)

    def _current(self) -> Any:
        optimizer = self._optimizer
        own = optimizer._learning_rate
        if not is_updating():
            return type(optimizer)._get_current_learning_rate(optimizer)
        if isinstance(own, keras.optimizers.schedules.LearningRateSchedule):
            done = ops.tensor(optimizer._iterations)
            rate = own(done * ops.cast(self.steps_in_one.read_value(), done.dtype))
        else:
            rate = type(optimizer)._get_current_learning_rate(optimizer)
        scaled = ops.tensor(rate)
        return scaled * ops.cast(self._factor.read_value(), scaled.dtype)


class Warmup(keras.callbacks.Callback):
    """Raises the factor from that of one rank's share to the whole, at each step of the first epochs.

    It does what LearningRateWarmupCallback does, so that the program that `--explain` writes does the same.
    """

    def __init__(self, rate: ScaledRate, scaling: Scaling, size: int) -> None:
        super().__init__()
        self._rate = rate
        self._scaling = scaling
        self._size = size
        self._epoch = 0
        self._warmup_epochs = 0.0
        self._steps = 0
        self._is_warm = False

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Find how many steps an epoch has. Collective: every rank must call this."""
        self._steps = fewest_steps(self.model, self.params.get("steps") or 0)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Note where the training is."""
        self._epoch = epoch
        self._warmup_epochs = float(self._rate.warmup_epochs.numpy())

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Set the factor for this step."""
        if self._is_warm:
            return
        _ = self.model  # on JAX Keras gives the model its variables back, where it is asked for
        warmup = self._warmup_epochs
        done = self._epoch + self._share_of_epoch(batch)
        self._is_warm = done >= warmup
        share = 1.0 if self._is_warm else warmup_growth(done, warmup, self._size)
        self._rate.set(self._scaling.factor * share)

    def _share_of_epoch(self, batch: int) -> float:
        """Return how much of the epoch is over after a step, or several at once; all of it where not known."""
        if not self._steps:
            return 1.0
        at_once: int = self.model.steps_per_execution
        begun: int = last_own_step(batch, self._steps, at_once)
        return min(1.0, (begun + at_once) / self._steps)
