"""Holds the training step that is being made: its turn, and its number of samples.

`fit.wrapped_methods` opens a `Step` around the user's train_step; the optimizer and the tape ask it. Outside of one (a
loop of the user's own) every rank's gradient weighs the same, as with stock Horovod.

A rank that has no batch left still takes the step, with its last batch and no weight, so that none waits for it.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.step_settings import Manner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from jupyter_ddl.training.backends.interface import Clock


class GradientExchange(Protocol):
    """How an optimizer's gradients are exchanged; `optimizer.exchange.Exchange` is one, and knows the step."""

    @property
    def op(self) -> Any:
        """Average, Sum or Adasum."""

    @property
    def process_set(self) -> Any:
        """The ranks that take part."""

    def weighed(self, gradients: Sequence[Any]) -> list[Any]:
        """Return this rank's gradients as it puts them into the exchange."""

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the gradients reduced over all ranks."""


class Turn:
    """The state that all steps of a model share.

    Attributes:
        active: 1 while this rank trains on batches of its own, 0 while it only takes part: a float64 number.
        present: ranks that were active in the last step: a float64 number.
        steps: steps that have been taken: an int64 number.
        exchanges: whether gradients have been exchanged in a step.
        clock: where the steps' time goes; None where that is not measured.
        last: the last batch, which is taken again once this rank has none left.
    """

    def __init__(self) -> None:
        self.active = ops.number(1.0, "float64", "active")
        self.present = ops.number(0.0, "float64", "present")
        self.steps = ops.number(0, "int64", "steps")
        self.exchanges = False
        self.clock: Clock | None = None
        self.last = ops.make_last_batch()


@dataclass
class Step:
    """One training step while TensorFlow traces it, or while it runs at once.

    Attributes:
        turn: of the model that is trained.
        samples: of this rank's batch: a scalar int tensor; None where every rank's batch is known to be as large.
        may_end_early: a rank may have no batch left in this step.
        manner: how `--auto` wants it.
        exchange: of the model's optimizer; None where that is plain.
        in_half: the variables that are computed with in half precision, by `key`.
        trained: the variables that the model trains.
        data: this rank's batch, as Keras passes it to the step.
        has_vectors: a loss of `compile` is a number for each sample, and has its `factor_of_sums`.
    """

    turn: Turn
    samples: Any = None
    may_end_early: bool = False
    manner: Manner = field(default_factory=Manner)
    exchange: GradientExchange | None = None
    in_half: frozenset[int] = frozenset()
    trained: Sequence[Any] = ()
    data: Any = None
    has_vectors: bool = False
    _totals: dict[Any, Any] = field(default_factory=dict)
    _weighed: set[int] = field(default_factory=set)
    _shrunk: set[int] = field(default_factory=set)
    _exchanged: set[int] = field(default_factory=set)

    def totals(self, process_set: Any) -> Any:
        """Return the sums over ranks of samples and of active ranks: a float64 vector of 2.

        Collective: every rank of the process set must call this.
        """
        number = process_set.process_set_id
        if number not in self._totals:
            active = self.turn.active.read_value()
            mine = ops.stack([self._own_samples(active), active])
            name = f"totals_of_the_step_{number}"

            def summed() -> Any:
                return hvd.allreduce(mine, op=hvd.Sum, name=name, process_set=process_set, ignore_name_scope=True)

            everyone = summed() if self.turn.clock is None else self.turn.clock.meet(summed)
            self._totals[number] = everyone = ops.stop_gradient(everyone)
            self.turn.present.assign(everyone[1])
            # After the exchange: where the data end TensorFlow may still run what needs no batch.
            with ops.after([everyone]):
                self.turn.steps.assign_add(1)
        return self._totals[number]

    def unchanged_at_the_end(self) -> AbstractContextManager[Any]:
        """Return the context of the user's step: where no rank has a batch a functional one leaves the state as it was.

        Collective: every rank must call this.
        """
        if self.exchange is None or not ops.is_functional():
            return nullcontext()
        # What is computed for the first time inside of a gradient could not be used outside of it.
        totals = self.totals(self.exchange.process_set)
        return ops.unchanged_unless(totals[1] > 0) if self.may_end_early else nullcontext()

    def share(self, process_set: Any) -> Any:
        """Return this rank's samples over the mean of all ranks' samples, a float64 scalar, as gradients may be.

        Where all ranks have equally many: 1 for a rank that is active, else 0.

        Collective: every rank of the process set must call this.
        """
        active = self.turn.active.read_value()
        totals = self.totals(process_set)
        if self.samples is None:
            return active
        return self._own_samples(active) * ops.cast(process_set.size(), "float64") / ops.maximum(totals[0], 1.0)

    def wait_for_share(self, since: Sequence[Any], share: Any) -> None:
        """Have the clock note how long the share is waited for; not at all where no other rank's number is in it.

        Args:
            since: what the rank itself has to compute before it needs the share.
            share: as `share` returned it.
        """
        if self.turn.clock is not None and self.samples is not None:
            self.turn.clock.wait(since, [share])

    def factor_of_sums(self, exchange: GradientExchange) -> Any:
        """Return the factor on a sum over this rank's batch, where means need none: float64.

        Gradients are averaged over the ranks, each weighed by its share of the samples. With this factor the result is
        the sum of the ranks' sums where their batches are parts of one, and else the mean of their sums.

        Collective: every rank of the exchange's process set must call this.
        """
        share = self.share(exchange.process_set)
        size = exchange.process_set.size() if self.manner.whole_batches else 1
        # A rank that has no batch left has no share.
        return ops.where(share > 0, ops.cast(size, "float64") / ops.maximum(share, 1e-12), ops.cast(1.0, "float64"))

    def note_exchanged(self, variables: Sequence[Any]) -> None:
        """Note whose gradients have been exchanged, so that the optimizer does not exchange them again."""
        self._exchanged |= {key(variable) for variable in variables}
        self.draw_alike()

    def forget_exchanged(self, variables: Sequence[Any]) -> None:
        """Note that gradients of these variables are new ones."""
        self._exchanged -= {key(variable) for variable in variables}

    def draw_alike(self) -> None:
        """Draw the same numbers on all ranks from here on: they are for gradients of all of them."""
        if self.manner.random is not None:
            self.manner.random.alike()

    def are_exchanged(self, variables: Sequence[Any]) -> list[bool]:
        """Return, for each variable, whether its gradient has been exchanged in this step."""
        return [key(variable) in self._exchanged for variable in variables]

    def _own_samples(self, active: Any) -> Any:
        return active if self.samples is None else active * ops.cast(self.samples, "float64")


_current: ContextVar[Step | None] = ContextVar("current training step", default=None)


def current() -> Step | None:
    """Return the step that is being made; None outside of one."""
    return _current.get()


@contextmanager
def making(step: Step) -> Iterator[Step]:
    """Make `step` the one that the optimizer and the tape ask."""
    token = _current.set(step)
    try:
        yield step
    finally:
        _current.reset(token)


@contextmanager
def suspended() -> Iterator[None]:
    """Leave the step in the block: what runs there is of one rank alone."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def is_being_made() -> bool:
    """Return whether this is called from within a step of `fit` or `train_on_batch`, or one's tracing."""
    return _current.get() is not None


def clock() -> Clock | None:
    """Return what measures the current step; None outside of one, and where it is not measured."""
    step = _current.get()
    return step.turn.clock if step is not None else None


def weighed_loss(loss: Any, exchange: Any, *, shrinks: bool = False) -> Any:
    """Return the loss times this rank's share of the samples, so that the average over ranks is that over samples.

    A loss is a mean over the batch, so ranks with batches of different sizes would otherwise weigh the same. One scalar
    is multiplied and not every gradient; the rest is the chain rule.

    Collective: every rank must call this where `exchange` averages.

    Args:
        loss: a scalar.
        exchange: of the gradients.
        shrinks: for half precision: keep the gradient of each sample as small as in one process's batch.
    """
    step = _current.get()
    if step is None or exchange.op != hvd.Average:
        return loss
    step._weighed.add(id(exchange))
    share = step.share(exchange.process_set)
    step.wait_for_share([loss], share)
    if shrinks and step.manner.whole_batches:
        # A mean over a part has N times the gradient for each sample, and half precision would overflow sooner.
        step._shrunk.add(id(exchange))
        share = share / ops.cast(exchange.process_set.size(), "float64")
    return loss * ops.cast(share, loss.dtype)


def weighed_gradients(gradients: list[Any], exchange: Any) -> list[Any]:
    """Return the gradients as this rank puts them into the exchange.

    They are multiplied by its share of the samples, where the loss was not (a train_step of the user's own); and zeros
    where this rank has no batch left, whatever its last one gave.

    Collective: every rank must call this.
    """
    step = _current.get()
    if step is None:
        return gradients
    step.turn.exchanges = True
    step.totals(exchange.process_set)
    averages = exchange.op == hvd.Average
    if averages and id(exchange) not in step._weighed:
        share = step.share(exchange.process_set)
        step.wait_for_share(gradients, share)
        return [_times(gradient, share) for gradient in gradients]
    grown = exchange.process_set.size() if id(exchange) in step._shrunk else 1
    if step.may_end_early:
        return [_times(gradient, step.turn.active.read_value() * grown) for gradient in gradients]
    if grown > 1:
        return [_times(gradient, grown) for gradient in gradients]
    return gradients


def updated() -> None:
    """Note that an update has been made: the step's next random numbers are for samples again, each rank its own."""
    step = _current.get()
    if step is not None and step.manner.random is not None:
        step.manner.random.apart()


def if_anybody_trains(process_set: Any, update: Any) -> None:
    """Call `update`, unless no rank has a batch for this step: then all are done.

    A functional step leaves the state as it was then (`Step.unchanged_at_the_end`).

    Collective: every rank must call this.
    """
    step = _current.get()
    if step is None or not step.may_end_early or ops.is_functional():
        update()
        return

    def updated() -> Any:
        update()
        return ops.cast(True, "bool")

    ops.cond(step.totals(process_set)[1] > 0, updated, lambda: ops.cast(False, "bool"))


def key(variable: Any) -> int:
    """Return what identifies a variable, whether Keras's or the backend's: Keras's holds one of these.

    On JAX it holds another array after each step, and there are no others.
    """
    return id(variable if ops.is_functional() else getattr(variable, "_value", variable))


def _times(gradient: Any, factor: Any) -> Any:
    """Return the gradient times a factor; zeros where that is 0, also for what is not a number."""
    return None if gradient is None else ops.times(gradient, factor)
