"""Sets an optimizer's learning rate from callbacks, with momentum corrected for the change.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import keras

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.optimizer.distribution import exchange_of, is_distributed


def settable_rate(optimizer: Any, what: str) -> Any:
    """Return the variable that holds an optimizer's learning rate.

    Args:
        optimizer: a Keras optimizer; of a LossScaleOptimizer it is the inner one's.
        what: the callback that sets it, for the error.

    Raises:
        InvalidInput: the learning rate is a schedule or a function, or there is none.
    """
    rate = getattr(optimizer, "learning_rate", None)
    if not isinstance(rate, keras.Variable):
        raise InvalidInput(
            f"{what} sets the optimizer's learning rate, so that must be a number.",
            _description(optimizer),
            f"Pass a number, e.g. learning_rate=1e-3, or leave {what} out.",
        )
    return rate


def fewest_steps(model: Any, own: int) -> int:
    """Return the steps of an epoch on the rank that has fewest: all ranks must have one learning rate in each step.

    The rank that has fewest only takes part in the steps beyond, with the rate of its last own step.

    Collective: every rank of the optimizer's process set must call this.

    Args:
        model: if its optimizer is distributed; otherwise only this rank's steps count.
        own: this rank's steps; 0 where it does not know them.
    """
    if not is_distributed(model.optimizer):
        return own
    process_set = exchange_of(model.optimizer).process_set
    if not process_set.included():
        return own
    return int(hvd.allreduce(ops.tensor(own), op=hvd.Min, name="steps_of_an_epoch", process_set=process_set))


def last_own_step(batch: int, steps: int, steps_per_execution: int) -> int:
    """Return a step's number, or that of the last step for which all ranks have a batch, whichever is less.

    Args:
        batch: the step, from 0.
        steps: what `fewest_steps` returned.
        steps_per_execution: the model's; Keras begins this many at once.
    """
    return min(batch, (steps - 1) // steps_per_execution * steps_per_execution)


def warmup_growth(epoch: float, warmup_epochs: float, size: int) -> float:
    """Return the factor on the learning rate while it grows from one rank's share to the whole.

    Source: Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.2, gradual warmup.

    Args:
        epoch: counted in steps; at most `warmup_epochs`.
        warmup_epochs: more than 0.
        size: the number of ranks.
    """
    return (epoch * (size - 1) / warmup_epochs + 1) / size


def inner(optimizer: Any) -> Any:
    """Return the optimizer that makes the updates, inside of those that scale the loss."""
    while isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    return optimizer


def set_rate(optimizer: Any, rate: Any, new: float, *, corrects_momentum: bool) -> None:
    """Set the learning rate.

    Momentum: SGD and RMSprop keep the sum of past updates, each with the learning rate of its time. The correction
    makes that sum what it would be with the new rate, as momentum of gradients has it. Horovod multiplies the momentum
    factor by new/old for one step instead; that is the same, but Keras compiles the factor into the step.
    Source: Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 3, remark 3

    Args:
        optimizer: whose rate it is.
        rate: what `settable_rate` returned.
        new: the new learning rate.
        corrects_momentum: do so.
    """
    old = float(rate.numpy())
    rate.assign(new)
    if not corrects_momentum or old in (0.0, new):
        return
    sums = _sums_of_updates(optimizer)
    if sums:
        ops.scale(sums, new / old)


def _sums_of_updates(optimizer: Any) -> list[Any]:
    """Return the variables in which an optimizer keeps sums of updates; other optimizers keep averages of gradients."""
    optimizer = inner(optimizer)
    name = {keras.optimizers.SGD: "momentums", keras.optimizers.RMSprop: "_momentums"}
    for kind, attribute in name.items():
        if isinstance(optimizer, kind):
            return [variable for variable in getattr(optimizer, attribute, []) if variable is not None]
    return []


def _description(optimizer: Any) -> str:
    optimizer = inner(optimizer)
    rate = getattr(optimizer, "_learning_rate", None)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        return f"{optimizer.name} with the schedule {type(rate).__name__}"
    if callable(rate):
        return f"{optimizer.name} with a function as its learning rate"
    return f"a {type(optimizer).__name__}, which has no learning rate of its own"
