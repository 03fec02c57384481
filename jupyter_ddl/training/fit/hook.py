"""The methods of Keras that a rank wraps.

`Model.make_train_function`: the step is made without XLA, which has no kernel for Horovod's operations, and knows how
many samples it has, and what its time is spent on. `Model.fit`: callbacks of ours before and after the user's.
`LossScaleOptimizer.__init__`: the exchange comes before the look for overflow.

Runs on: every rank.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from jupyter_ddl.engine import cell
from jupyter_ddl.training import step
from jupyter_ddl.training.checkpoint import hook as checkpoints
from jupyter_ddl.training.fit.batches import Batches, agree
from jupyter_ddl.training.fit.clock import Clock, samples_in, tensors_in
from jupyter_ddl.training.fit.in_step import InStep
from jupyter_ddl.training.fit.meeting import Meeting
from jupyter_ddl.training.fit.samples import SamplesSeen
from jupyter_ddl.training.fit.telemetry import Telemetry
from jupyter_ddl.training.fit.unexchanged import Unexchanged, ranks_that_train
from jupyter_ddl.training.optimizer import exchange_of, is_distributed, take_exchange_outwards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class _Made:
    """How a model's train function was made: what was known of the batches then, and the turn that its step takes."""

    batches: Batches
    turn: step.Turn


# What is known of the batches of the fit that a model is in; absent outside of `fit`.
_batches: WeakKeyDictionary[Any, Batches] = WeakKeyDictionary()
_made: WeakKeyDictionary[Any, _Made] = WeakKeyDictionary()


def install() -> None:
    """Wrap the methods. Safe to call twice."""
    if hasattr(keras.Model.fit, "__jupyter_ddl__"):
        return
    keras.Model.make_train_function = _wrapped(keras.Model.make_train_function, _make_train_function)
    keras.Model.fit = _wrapped(keras.Model.fit, _fit)
    scaling = keras.optimizers.LossScaleOptimizer
    scaling.__init__ = _wrapped(scaling.__init__, _initialise_scaling)


def _wrapped(stock: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls `ours(stock, self, ...)`."""

    @functools.wraps(stock)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ours(stock, self, *args, **kwargs)

    method.__jupyter_ddl__ = True  # type: ignore[attr-defined]
    return method


def _initialise_scaling(stock: Callable[..., None], scaling: Any, *args: Any, **kwargs: Any) -> None:
    stock(scaling, *args, **kwargs)
    take_exchange_outwards(scaling)


def _make_train_function(stock: Callable[..., Any], model: Any, force: bool = False) -> Any:
    batches = _batches.get(model, Batches.unknown())
    made = _made.get(model)
    if is_distributed(model.optimizer) and (made is None or made.batches != batches):
        # The step of the last fit weighs samples in another way, or was made before the optimizer was distributed.
        force = True
    if model.train_function is not None and not force:
        return stock(model, force)
    with _our_step(model, batches):
        return stock(model, force)


@contextmanager
def _our_step(model: Any, batches: Batches) -> Iterator[None]:
    """Have Keras make its train function of our step, and where that exchanges gradients, without XLA.

    Evaluation and prediction stay with XLA, where the user asked for it.
    """
    turn = step.Turn()
    turn.clock = Clock() if cell.is_sampled() else None
    _made[model] = _Made(batches, turn)
    users_step = model.train_step

    @functools.wraps(users_step)
    def train_step(data: Any) -> Any:
        if turn.clock is not None:
            turn.clock.batch_is_there(data)
        if is_distributed(model.optimizer):
            turn.keep(data)
        samples = None if batches.are_alike else samples_in(data)
        # TensorFlow may run what needs no batch, such as the count of the optimizer's steps, though none comes.
        with step.making(step.Step(turn, samples, batches.may_end_early)), tf.control_dependencies(tensors_in(data)):
            logs = users_step(data)
        if turn.clock is not None:
            turn.clock.step_ends()
        return logs

    # Past Keras's own __setattr__, which would track them as parts of the model.
    ours: dict[str, Any] = {"train_step": train_step}
    if is_distributed(model.optimizer):
        ours["_jit_compile"] = False
    before = {name: model.__dict__[name] for name in ours if name in model.__dict__}
    model.__dict__.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del model.__dict__[name]
        model.__dict__.update(before)


def _fit(stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    distributed = is_distributed(model.optimizer) and hvd.is_initialized() and hvd.size() > 1
    before: list[Any] = [Telemetry(lambda: clock_of(model))] if cell.is_sampled() else []
    after: list[Any] = []
    call = inspect.signature(stock).bind(model, *args, **kwargs)
    if distributed:
        first, last = _callbacks(model, call.arguments)
        before, after = before + first, after + last
    elif ranks_that_train() > 1:
        after = [_warning(model)]
    given = call.arguments.get("callbacks")
    listed = list(given.callbacks) if isinstance(given, keras.callbacks.CallbackList) else tf.nest.flatten(given or [])
    saving = checkpoints.of_this_fit(model, call.arguments, listed)
    after = [*after, *saving.callbacks]
    if not before and not after:
        return stock(model, *args, **kwargs)
    if isinstance(given, keras.callbacks.CallbackList):
        given.callbacks[:] = [*before, *given.callbacks, *after]
        given.set_model(model)
    else:
        call.arguments["callbacks"] = [*before, *listed, *after]
    try:
        with saving.running():
            return stock(*call.args, **call.kwargs)
    finally:
        _batches.pop(model, None)


def _callbacks(model: Any, arguments: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the callbacks that go before the user's, and those that go after them.

    Collective: every rank of the optimizer's process set must call this.
    """
    exchange = exchange_of(model.optimizer)
    process_set = exchange.process_set
    if not process_set.included() or process_set.size() == 1:
        return [], []
    batches = _batches[model] = agree(arguments, process_set)
    in_step = InStep(process_set, batches, exchange.on_drift or cell.on_drift())
    meeting = Meeting(functools.partial(turn_of, model), in_step.after_step, batches, process_set)
    # A single step is how programs give an optimizer its variables before they load or broadcast a state.
    is_single = batches.all_have == 1 and arguments.get("epochs", 1) - arguments.get("initial_epoch", 0) == 1
    return [meeting, SamplesSeen()], [] if is_single else [in_step]


def _warning(model: Any) -> Unexchanged:
    return Unexchanged(lambda: turn_of(model).exchanges)


def clock_of(model: Any) -> Clock | None:
    """Return what measures the steps of a model's train function; None before it is made."""
    made = _made.get(model)
    return made.turn.clock if made is not None else None


def turn_of(model: Any) -> step.Turn:
    """Return the turn that the step of a model's train function takes."""
    return _made[model].turn
