"""Makes a Keras optimizer one that exchanges gradients before each update, and back.

Runs on: every rank.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import keras

from jupyter_ddl.training import step
from jupyter_ddl.training.backends import global_process_set, ops
from jupyter_ddl.training.half_precision import as_of_whole_batch
from jupyter_ddl.training.optimizer.build import build
from jupyter_ddl.training.optimizer.exchange import Exchange
from jupyter_ddl.training.optimizer.local_variables import LocalVariables, reduce_in_step
from jupyter_ddl.training.unconverted import unconverted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jupyter_ddl.training.optimizer.accumulation import Accumulation
    from jupyter_ddl.training.optimizer.state_shards import StateShards

# What makes an optimizer a distributed one. Set past Keras's own __setattr__, which would track what they hold.
_PARTS = ("_exchange", "_accumulation", "_local")
# All that exist, so that an interrupted cell is known to have trained with them.
_all: WeakSet[Any] = WeakSet()
_updating: ContextVar[bool] = ContextVar("a distributed optimizer makes an update", default=False)
_reduced: ContextVar[Any] = ContextVar("the optimizer whose gradients are reduced already", default=None)


class DistributedMixin:
    """What makes a Keras optimizer a distributed one; it comes before the optimizer's own class.

    Everything that Keras does to gradients (unscaling, clipping, weight decay, averages of weights) comes after the
    exchange, so that it sees what one process with the global batch would have seen.
    """

    _exchange = Exchange()
    _accumulation: Accumulation | None = None
    _local = LocalVariables()
    _shards: StateShards | None = None
    _check: Callable[[Any], None] | None = None
    _again: Callable[..., None] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The plain Keras class, so that the optimizer is saved as one.

        Keras writes `optimizer.__class__` in a saved model, by its public or registered name. The model then opens
        where neither Horovod nor jupyter_ddl is installed. `type(optimizer)` and `isinstance` still tell the truth.
        """
        return _plain_class(type(self))

    @unconverted
    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Exchange the gradients, then update the variables as the plain optimizer does.

        With `backward_passes_per_step=k`, only at every k-th call; the others add up gradients and count as iterations,
        as Horovod's and Keras's own accumulation count them.

        Collective: every rank must call this, in the same order.
        """
        if self._check is not None:
            self._check(self)
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)  # type: ignore[attr-defined]
        gradients = list(grads)
        if self._shards is not None:
            self._update_shards(self._shards, gradients, variables)
        elif self._accumulation is None:
            reduced = gradients if _reduced.get() is self else self._reduced(gradients, variables)
            with _as(_updating, True):
                self._update(as_of_whole_batch(self, reduced, variables), variables)
        else:
            own = self._exchange.weighed(gradients)
            with _as(_updating, True):
                add = partial(self._apply_when_due, self._accumulation, own, variables)
                # A step without any rank's batch is no backward pass.
                step.if_anybody_trains(self._exchange.process_set, add)
        step.updated()

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """Exchange the gradients, then return the variables as the plain optimizer updates them.

        A LossScaleOptimizer's own does not call `apply`.

        Collective: every rank must call this, in the same order.
        """
        reduced = self._reduced(list(grads), list(self._trainable_variables))  # type: ignore[attr-defined]
        with _as(_reduced, self), _as(_updating, True):
            return super().stateless_apply(optimizer_variables, reduced, trainable_variables)  # type: ignore[misc]

    @unconverted
    def apply_gradients(self, grads_and_vars: Any) -> Any:
        """Update as the plain optimizer does; the code of a class of the user's own runs after the exchange.

        Collective: every rank must call this, in the same order.
        """
        plain: Any = super()
        if self._accumulation is not None or not _is_users(plain.apply_gradients):
            return plain.apply_gradients(grads_and_vars)
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]
        reduced = self._reduced([gradient for gradient, _ in pairs], variables)
        with _as(_reduced, self):
            return plain.apply_gradients(list(zip(reduced, variables, strict=True)))

    @unconverted
    def scale_loss(self, loss: Any) -> Any:
        """Scale the loss as the plain optimizer does, and by this rank's share of the step's samples.

        Collective, inside `fit` and `train_on_batch`: every rank must call this.
        """
        shrinks = isinstance(self, keras.optimizers.LossScaleOptimizer)
        return step.weighed_loss(super().scale_loss(loss), self._exchange, shrinks=shrinks)  # type: ignore[misc]

    def build(self, variables: list[Any]) -> None:
        """Make the optimizer's state: that of this rank's parts of the variables, where it is sharded."""
        super().build(variables if self._shards is None else self._shards.parts)  # type: ignore[misc]

    def save_own_variables(self, store: Any) -> None:
        """Save the optimizer's state in a model's file; not where it is sharded, since one rank has a part of it."""
        if self._shards is None:
            super().save_own_variables(store)  # type: ignore[misc]
        else:
            warnings.warn(
                "The optimizer's state is sharded over the ranks, and is not saved with the model: --checkpoint saves "
                "it (docs/memory.md).",
                stacklevel=2,
            )

    def register_local_var(self, var: Any) -> None:
        """Leave a variable out of the exchange: its gradient stays this rank's own."""
        if self._local is DistributedMixin._local:
            object.__setattr__(self, "_local", LocalVariables())
        self._local.add(var)

    def kept_distribution(self) -> tuple[Callable[..., None], dict[str, Any]]:
        """Return what distributes a plain copy of this optimizer on a rank that takes this one's place, as this one is.

        It is called with the copy and the dict. `engine.kept_variables` asks for it.

        Raises:
            ValueError: it has parts of this rank alone.
        """
        own = {
            "backward_passes_per_step": self._accumulation is not None,
            "local variables": bool(self._local),
            "sharded state": self._shards is not None,
            "groups of variables": not isinstance(self._exchange.groups, int | None),
            "a process set": self._exchange.process_set is not global_process_set,
        }
        found = [name for name, has in own.items() if has]
        if found:
            raise ValueError(f"its optimizer has {', '.join(found)}: make it again, with hvd.DistributedOptimizer")
        settings = {f.name: getattr(self._exchange, f.name) for f in fields(Exchange) if f.name != "process_set"}
        return self._again or distribute_again, settings

    def _reduced(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        """Return the gradients reduced over the ranks, except those that were reduced in this step already."""
        return reduce_in_step(self._exchange, self._local, gradients, variables)

    def _update(self, reduced: list[Any], variables: list[Any]) -> None:
        self._make_variables(variables)
        plain_apply = super().apply  # type: ignore[misc]
        step.if_anybody_trains(self._exchange.process_set, lambda: plain_apply(reduced, variables))

    def _update_shards(self, shards: StateShards, gradients: list[Any], variables: list[Any]) -> None:
        """Update this rank's part of each weight, and gather the weights."""
        now = step.current()
        if now is not None and any(now.are_exchanged(variables)):
            # By the tape, since the step is the program's own.
            own = shards.own(self._reduced(gradients, variables), variables)
        else:
            own = shards.scattered(self._exchange.weighed(gradients), variables)
            if now is not None:
                now.draw_alike()
        own = shards.agreed(as_of_whole_batch(self, own, shards.variables), self)
        with _as(_updating, True):
            self._make_variables(shards.parts)
            shards.take()
            self._update(own, shards.parts)
        shards.gather()

    def _make_variables(self, variables: list[Any]) -> None:
        """Build the optimizer now: Keras would in `apply`, which may be in a branch, where no variable can be made."""
        build(self, variables)

    def _apply_when_due(self, accumulation: Accumulation, gradients: list[Any], variables: list[Any]) -> None:
        self._make_variables(variables)

        def due() -> Any:
            taken = accumulation.take(gradients, variables)
            self._update(self._local.reduce_others(self._exchange, taken, variables), variables)
            return ops.cast(True, "bool")

        def not_due() -> Any:
            self.iterations.assign_add(1)  # type: ignore[attr-defined]
            return ops.cast(False, "bool")

        ops.cond(accumulation.add(gradients, variables), due, not_due)


def is_distributed(optimizer: Any) -> bool:
    """Return whether the optimizer exchanges its gradients."""
    return isinstance(optimizer, DistributedMixin)


def is_updating() -> bool:
    """Return whether this is called from within an update of a distributed optimizer, or one's tracing."""
    return _updating.get()


def exchange_of(optimizer: Any) -> Exchange:
    """Return how a distributed optimizer exchanges its gradients."""
    assert isinstance(optimizer, DistributedMixin)
    return optimizer._exchange


def local_variables_of(optimizer: Any) -> LocalVariables:
    """Return the variables that a distributed optimizer leaves to each rank."""
    assert isinstance(optimizer, DistributedMixin)
    return optimizer._local


def accumulation_of(optimizer: Any) -> Accumulation | None:
    """Return what adds up the gradients of several backward passes; None where each is exchanged."""
    return optimizer._accumulation if isinstance(optimizer, DistributedMixin) else None


def shards_of(optimizer: Any) -> StateShards | None:
    """Return this rank's parts of what a distributed optimizer trains; None where its state is not sharded."""
    assert isinstance(optimizer, DistributedMixin)
    return optimizer._shards


def set_shards(optimizer: Any, shards: StateShards) -> None:
    """Have a distributed optimizer train this rank's parts; `sharding.shard_state` calls it."""
    assert isinstance(optimizer, DistributedMixin)
    object.__setattr__(optimizer, "_shards", shards)


def take_exchange_outwards(scaling: Any) -> None:
    """Make a LossScaleOptimizer exchange gradients, instead of the distributed optimizer inside it.

    It checks the gradients for overflow before it passes them inwards. If it checked before the exchange, ranks would
    disagree whether to skip a step, and one would wait in the exchange for ever.

    Args:
        scaling: a keras.optimizers.LossScaleOptimizer; nothing happens where its inner optimizer is plain.
    """
    inner = scaling.inner_optimizer
    if not is_distributed(inner):
        return
    if not is_distributed(scaling):
        distribute(scaling, inner._exchange, inner._accumulation, inner._local)
        object.__setattr__(scaling, "_shards", inner._shards)
    _become(inner, _plain_class(type(inner)))


@cache
def distributed_class(plain: type) -> type:
    """Return the subclass of a Keras optimizer's class that exchanges gradients, the same one each time."""
    return type(f"Distributed{plain.__name__}", (DistributedMixin, plain), {})


def distribute(optimizer: Any, exchange: Exchange, accumulation: Accumulation | None, local: LocalVariables) -> None:
    """Make an optimizer a distributed one.

    Args:
        optimizer: a Keras optimizer that is none.
        exchange: how its gradients are exchanged.
        accumulation: adds up the gradients of several backward passes; None where each is exchanged.
        local: the variables that it leaves to each rank.
    """
    for part, value in zip(_PARTS, (exchange, accumulation, local), strict=True):
        object.__setattr__(optimizer, part, value)
    plain: Any = type(optimizer)
    _become(optimizer, distributed_class(plain))
    _all.add(optimizer)


def distribute_again(optimizer: Any, settings: dict[str, Any]) -> None:
    """Make the copy of a distributed optimizer one, on a rank that takes the place of another.

    Args:
        optimizer: a plain one.
        settings: as `DistributedMixin.kept_distribution` returns them.
    """
    distribute(optimizer, Exchange(**settings), None, LocalVariables())


def set_again(optimizer: Any, again: Callable[..., None]) -> None:
    """Have the copy of a distributed optimizer be distributed by `again(optimizer, settings)`."""
    assert isinstance(optimizer, DistributedMixin)
    object.__setattr__(optimizer, "_again", again)


def undistributed(optimizer: Any) -> None:
    """Make a distributed optimizer a plain one, which shares nothing with the ranks' exchange."""
    _become(optimizer, _plain_class(type(optimizer)))


def is_made_by_class(optimizer: Any) -> bool:
    """Return whether a distributed optimizer was made by the class of another, as by `other.from_config(config)`.

    `hvd.DistributedOptimizer` has not made it, and it has the settings of none.
    """
    return optimizer not in _all


def check_updates(optimizer: Any, check: Callable[[Any], None]) -> None:
    """Have a distributed optimizer call `check(optimizer)` before each update; its error ends the update."""
    assert isinstance(optimizer, DistributedMixin)
    object.__setattr__(optimizer, "_check", check)


def all_distributed() -> list[Any]:
    """Return the distributed optimizers of this rank that are in use."""
    return [optimizer for optimizer in _all if is_distributed(optimizer)]


def _become(optimizer: Any, kind: type) -> None:
    """Change the optimizer's class; past `DistributedMixin.__class__`, which only reads."""
    vars(object)["__class__"].__set__(optimizer, kind)


def _plain_class(distributed: type) -> type:
    return distributed.__mro__[distributed.__mro__.index(DistributedMixin) + 1]


@contextmanager
def _as(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _is_users(method: Any) -> bool:
    """Return whether a method of an optimizer is defined by a class of the user's, and not by Keras's."""
    return not str(getattr(method, "__func__", method).__module__).startswith("keras.")


def has_users_update(optimizer: Any) -> bool:
    """Return whether an optimizer's `apply_gradients` is of a class of the user's."""
    kind = type(optimizer)
    plain: Any = _plain_class(kind) if is_distributed(optimizer) else kind
    return _is_users(plain.apply_gradients)


def trained_together(optimizer: Any, variables: Sequence[Any]) -> list[Any]:
    """Return those of the variables that a distributed optimizer keeps alike on all ranks."""
    local = local_variables_of(optimizer)
    return [variable for variable in variables if variable not in local]
