"""Makes the user's optimizer exchange gradients before each update.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import horovod.tensorflow as hvd
import keras
import tensorflow as tf
from horovod.tensorflow.mpi_ops import global_process_set

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import check_on_drift
from jupyter_ddl.training import step
from jupyter_ddl.training.collectives import require_horovod
from jupyter_ddl.training.half_precision import as_of_whole_batch
from jupyter_ddl.training.optimizer import options
from jupyter_ddl.training.optimizer.accumulation import Accumulation
from jupyter_ddl.training.optimizer.build import build
from jupyter_ddl.training.optimizer.exchange import Exchange
from jupyter_ddl.training.optimizer.local_variables import LocalVariables, reduce_in_step
from jupyter_ddl.training.unconverted import unconverted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)  # type: ignore[attr-defined]
        gradients = list(grads)
        if self._accumulation is None:
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

    def register_local_var(self, var: Any) -> None:
        """Leave a variable out of the exchange: its gradient stays this rank's own."""
        if self._local is DistributedMixin._local:
            object.__setattr__(self, "_local", LocalVariables())
        self._local.add(var)

    def _reduced(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        """Return the gradients reduced over the ranks, except those that were reduced in this step already."""
        return reduce_in_step(self._exchange, self._local, gradients, variables)

    def _update(self, reduced: list[Any], variables: list[Any]) -> None:
        self._make_variables(variables)
        plain_apply = super().apply  # type: ignore[misc]
        step.if_anybody_trains(self._exchange.process_set, lambda: plain_apply(reduced, variables))

    def _make_variables(self, variables: list[Any]) -> None:
        """Build the optimizer now: Keras would in `apply`, which may be in a branch, where no variable can be made."""
        build(self, variables)

    def _apply_when_due(self, accumulation: Accumulation, gradients: list[Any], variables: list[Any]) -> None:
        self._make_variables(variables)

        def due() -> Any:
            taken = accumulation.take(gradients, variables)
            self._update(self._local.reduce_others(self._exchange, taken, variables), variables)
            return tf.constant(True)

        def not_due() -> Any:
            self.iterations.assign_add(1)  # type: ignore[attr-defined]
            return tf.constant(False)

        tf.cond(accumulation.add(gradients, variables), due, not_due)


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = hvd.Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: Any = hvd.Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
    on_drift: str | None = None,
    same_batches: bool = False,
) -> Any:
    """Make an optimizer exchange gradients with all ranks before each update, and return it.

    The optimizer itself changes, so that it keeps its state, schedules and `exclude_from_weight_decay`.

    Args:
        optimizer: a Keras 3 optimizer, built or not.
        name: how Horovod's timeline calls the operations; "Distributed" and the optimizer's class by default.
        device_dense: TensorFlow's device for the reduction of dense gradients; "" leaves it to TensorFlow.
        device_sparse: likewise for the IndexedSlices of embeddings.
        compression: `Compression.none`, or `Compression.fp16` to send float16.
        sparse_as_dense: send an embedding's gradient as a dense tensor.
        gradient_predivide_factor: with Average, divide by this before the sum and by world_size / this after it.
        op: Average (equal to one process with the global batch), Sum, or Adasum (of gradients; world_size must be a
            power of two).
        backward_passes_per_step: exchange and update only at every k-th call, with the sum of k gradients.
        average_aggregated_gradients: divide that sum by `backward_passes_per_step`.
        num_groups: older name of a number of `groups`; 0 for none.
        groups: None, a number of groups, or lists of variables whose gradients travel together.
        process_set: the ranks that take part.
        scale_local_gradients: divide the gradients of local variables (`register_local_var`) by the number of ranks.
        on_drift: what `fit` does where the ranks' weights differ: "stop" raises, "warn" prints a warning and
            continues; None for the cell's own `--on-drift`.
        same_batches: all ranks are meant to train on the same batches: no warning.

    Raises:
        InvalidInput: Horovod is not initialised; this is no Keras 3 optimizer, or already distributed; an option is
            not one of the above, or two of them exclude each other.

    Example:
        >>> optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))
        >>> model.compile(optimizer, "mse")
        >>> callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
        >>> history = model.fit(x, y, callbacks=callbacks, verbose=0)
    """
    rank_state.here().variables.check()
    require_horovod("hvd.DistributedOptimizer")
    _require_plain(optimizer)
    if on_drift is not None:
        check_on_drift(on_drift)
    plain: Any = type(optimizer)
    exchange = Exchange(
        op=options.reduction(op, process_set, averages_passes=average_aggregated_gradients),
        compression=compression,
        name=name or f"Distributed{plain.__name__}",
        sparse_as_dense=sparse_as_dense,
        predivide=options.predivision(gradient_predivide_factor, op),
        groups=options.grouping(groups, num_groups),
        process_set=process_set,
        device_dense=device_dense,
        device_sparse=device_sparse,
        on_drift=on_drift,
        same_batches=same_batches,
    )
    passes = options.backward_passes(backward_passes_per_step)
    accumulation = Accumulation(passes, average=average_aggregated_gradients) if passes > 1 else None
    _distribute(optimizer, exchange, accumulation, LocalVariables(scaled=scale_local_gradients))
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        take_exchange_outwards(optimizer)
    return optimizer


def PartialDistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any, *args: Any, local_layers: Any = None, **kwargs: Any
) -> Any:
    """Make an optimizer exchange gradients, except those of some layers, which stay each rank's own; return it.

    Args:
        optimizer: a Keras 3 optimizer, built or not.
        *args: as `DistributedOptimizer` takes them.
        local_layers: a built layer, or several.
        **kwargs: as `DistributedOptimizer` takes them.

    Raises:
        InvalidInput: `local_layers` are not Keras layers; or as `DistributedOptimizer`.

    Example:
        >>> last = model.layers[-1]
        >>> optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.01), local_layers=last)
        >>> model.compile(optimizer, "mse")
        >>> history = model.fit(x, y, verbose=0)
    """
    variables = options.variables_of(local_layers)
    distributed = DistributedOptimizer(optimizer, *args, **kwargs)
    for variable in variables:
        distributed.register_local_var(variable)
    return distributed


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
        _distribute(scaling, inner._exchange, inner._accumulation, inner._local)
    _become(inner, _plain_class(type(inner)))


@cache
def distributed_class(plain: type) -> type:
    """Return the subclass of a Keras optimizer's class that exchanges gradients, the same one each time."""
    return type(f"Distributed{plain.__name__}", (DistributedMixin, plain), {})


def _distribute(optimizer: Any, exchange: Exchange, accumulation: Accumulation | None, local: LocalVariables) -> None:
    for part, value in zip(_PARTS, (exchange, accumulation, local), strict=True):
        object.__setattr__(optimizer, part, value)
    plain: Any = type(optimizer)
    _become(optimizer, distributed_class(plain))
    _all.add(optimizer)


def all_distributed() -> list[Any]:
    """Return the distributed optimizers of this rank that are in use."""
    return [optimizer for optimizer in _all if is_distributed(optimizer)]


def _become(optimizer: Any, kind: type) -> None:
    """Change the optimizer's class; past `DistributedMixin.__class__`, which only reads."""
    vars(object)["__class__"].__set__(optimizer, kind)


def _plain_class(distributed: type) -> type:
    return distributed.__mro__[distributed.__mro__.index(DistributedMixin) + 1]


def _require_plain(optimizer: Any) -> None:
    if is_distributed(optimizer):
        raise InvalidInput(
            "An optimizer is distributed once.",
            f"a {type(optimizer).__name__}",
            "Drop the second hvd.DistributedOptimizer.",
        )
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidInput(
            "hvd.DistributedOptimizer takes a Keras 3 optimizer.",
            f"{type(optimizer).__module__}.{type(optimizer).__name__}",
            "Pass one of keras.optimizers, e.g. keras.optimizers.Adam(1e-3).",
        )


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


def trained_together(optimizer: Any, variables: Sequence[Any]) -> list[Any]:
    """Return those of the variables that a distributed optimizer keeps alike on all ranks."""
    local = local_variables_of(optimizer)
    return [variable for variable in variables if variable not in local]
