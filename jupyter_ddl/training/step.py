"""What the training step that is being made knows of itself: how many samples it has, and whether it exchanges.

The fit hook opens a `Step` around the user's train_step; the optimizer and the tape ask it. Outside of one (a loop of
the user's own) every rank's gradient weighs the same, as with stock Horovod.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Step:
    """One training step while TensorFlow traces it, or runs it eagerly.

    Attributes:
        samples: of this rank's batch: a scalar int tensor; None where every rank's batch is known to be as large.
        may_end_early: a rank may have no batch left in this step, and take part with zeros.
        exchanges: whether gradients were exchanged in it.
    """

    samples: Any = None
    may_end_early: bool = False
    exchanges: bool = False
    _shares: dict[Any, Any] = field(default_factory=dict)

    def share(self, process_set: Any) -> Any:
        """Return this rank's samples over the mean of all ranks' samples, a float32 scalar; 1 where all have as many.

        Collective: every rank of the process set must call this.
        """
        key = process_set.process_set_id
        if key not in self._shares:
            mine = tf.cast(self.samples, tf.float32)
            everyone = hvd.allreduce(mine, op=hvd.Sum, name="samples_of_the_step", process_set=process_set)
            share = mine * tf.cast(process_set.size(), tf.float32) / tf.maximum(everyone, 1.0)
            self._shares[key] = tf.stop_gradient(share)
        return self._shares[key]


_current: ContextVar[Step | None] = ContextVar("current training step", default=None)


@contextmanager
def making(step: Step) -> Iterator[Step]:
    """Make `step` the one that the optimizer and the tape ask."""
    token = _current.set(step)
    try:
        yield step
    finally:
        _current.reset(token)


def weighed(loss: Any, exchange: Any) -> Any:
    """Return the loss times this rank's share of the samples, so that the average over ranks is that over samples.

    A loss is a mean over the batch, so ranks with batches of different sizes would otherwise weigh the same, whatever
    they hold. One scalar is multiplied and not every gradient; the rest is the chain rule.

    Collective: every rank must call this where `exchange` averages.
    """
    step = _current.get()
    if step is None or step.samples is None or exchange.op != hvd.Average:
        return loss
    return loss * tf.cast(step.share(exchange.process_set), loss.dtype)


def may_end_early() -> bool:
    """Return whether a rank may have no batch left in the step that is being made."""
    step = _current.get()
    return step is not None and step.may_end_early


def note_exchange() -> None:
    """Note that gradients are exchanged in the step that is being made."""
    step = _current.get()
    if step is not None:
        step.exchanges = True
