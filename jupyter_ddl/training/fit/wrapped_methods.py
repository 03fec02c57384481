"""Wraps methods of Keras on a rank.

`Model.make_train_function`: the step is made without XLA, which has no kernel for Horovod's operations, and knows how
many samples it has, and what its time is spent on. `Model.make_test_function`: on TensorFlow the step begins when its
batch is there, and on JAX a model keeps its state where none is there.
`Model.fit`: callbacks of ours before and after the user's.
`LossScaleOptimizer.__init__`: the exchange comes before the check for overflow.

Runs on: every rank.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import keras

from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import batch_losses, batch_means, step
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, TORCH, global_process_set, hvd, ops
from jupyter_ddl.training.consistency import same_batches
from jupyter_ddl.training.fit import interrupted_fit, on_batch
from jupyter_ddl.training.fit.first_batches import Batches, agree
from jupyter_ddl.training.fit.given_parameters import GivenParameters
from jupyter_ddl.training.fit.samples import SamplesSeen
from jupyter_ddl.training.fit.saving import Saver, unsaved
from jupyter_ddl.training.fit.telemetry import Telemetry
from jupyter_ddl.training.fit.uneven_batches import EpochBarrier
from jupyter_ddl.training.fit.unexchanged import Unexchanged, ranks_that_train
from jupyter_ddl.training.fit.unsynchronized import warn_of_unsynchronized
from jupyter_ddl.training.fit.weights_check import InStep, Seen
from jupyter_ddl.training.half_precision import computed_in_half
from jupyter_ddl.training.optimizer.build import build
from jupyter_ddl.training.optimizer.distribution import exchange_of, is_distributed, take_exchange_outwards
from jupyter_ddl.training.optimizer.exchange import comparison_of_loops
from jupyter_ddl.training.optimizer.sharding import shard_state
from jupyter_ddl.training.parts_of_batches import in_parts
from jupyter_ddl.training.step_settings import Manner, manner

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.training.backends.interface import Clock


@dataclass(frozen=True)
class _Made:
    """How a model's train function was made: what was known of the batches then, its step's turn and manner."""

    batches: Batches
    turn: step.Turn
    manner: Manner


# What is known of the batches of the fit that a model is in; absent outside of `fit`.
_batches: WeakKeyDictionary[Any, Batches] = WeakKeyDictionary()
_made: WeakKeyDictionary[Any, _Made] = WeakKeyDictionary()


def install(saver: Saver = unsaved) -> None:
    """Wrap the methods. Safe to call twice.

    Args:
        saver: decides for each `fit` how it is saved.
    """
    patch(keras.Model, "make_train_function", _make_train_function, Layer.FIT)
    patch(keras.Model, "fit", _Fit(saver), Layer.FIT)
    patch(keras.Model, "train_on_batch", _train_on_batch, Layer.FIT)
    patch(keras.optimizers.LossScaleOptimizer, "__init__", _initialise_scaling, Layer.FIT)
    if BACKEND == TENSORFLOW:
        from jupyter_ddl.training.fit.evaluation_step import make_test_function
        from jupyter_ddl.training.optimizer import early_exchange

        patch(keras.Model, "make_test_function", make_test_function, Layer.FIT)
        early_exchange.install()
    elif BACKEND == TORCH:
        from jupyter_ddl.training.optimizer import torch_backward

        torch_backward.install()
    else:
        from jupyter_ddl.training.fit import jax_evaluation
        from jupyter_ddl.training.optimizer import jax_gradients

        patch(keras.Model, "make_test_function", jax_evaluation.make_test_function, Layer.FIT)
        jax_gradients.install()
    batch_losses.install()
    batch_means.install()
    rank_state.here().cells.prepare_with(interrupted_fit.begin_cell)
    rank_state.here().cells.prepare_with(comparison_of_loops().begin_cell)


def _initialise_scaling(stock: Callable[..., None], scaling: Any, *args: Any, **kwargs: Any) -> None:
    stock(scaling, *args, **kwargs)
    take_exchange_outwards(scaling)


def _make_train_function(stock: Callable[..., Any], model: Any, force: bool = False) -> Any:
    if ops.is_one_program():
        return stock(model, force)
    batches = _batches.get(model, Batches.unknown())
    made = _made.get(model)
    is_another = made is None or (made.batches, made.manner) != (batches, manner())
    if is_another and (is_distributed(model.optimizer) or manner().parts > 1 or (made and made.manner.parts > 1)):
        # The step of the last fit weighs samples in another way, or was made before the optimizer was distributed.
        force = True
    if model.train_function is not None and not force:
        return stock(model, force)
    if model.built and model.optimizer is not None and _is_stock_step(model.train_step):
        # Not in the first step's tracing, which may be cut short.
        build(model.optimizer, list(model.trainable_variables))
    return ops.make_train_function(
        stock,
        model,
        force,
        lambda users_step: _step_around(users_step, model, batches),
        process_set=_uncompiled_for(model),
    )


def _uncompiled_for(model: Any) -> Any:
    """Return the ranks for which a model's step is made without XLA; None where it may be compiled."""
    if is_distributed(model.optimizer):
        return exchange_of(model.optimizer).process_set
    # The sizes of a batch's parts are known when the step runs, and XLA takes none of those.
    return global_process_set if manner().parts > 1 else None


def _is_stock_step(train_step: Any) -> bool:
    return getattr(train_step, "__func__", None) is keras.Model.train_step


def _step_around(users_step: Callable[[Any], Any], model: Any, batches: Batches) -> Callable[[Any], Any]:
    """Return what a model's train function calls for each batch: the user's step, as a step of several ranks."""
    turn = step.Turn()
    turn.clock = ops.make_clock() if run_context.is_sampled() else None
    how = manner()
    _made[model] = _Made(batches, turn, how)
    trains = users_step if how.parts == 1 else in_parts(users_step, model, how.parts)

    @functools.wraps(users_step)
    def train_step(data: Any) -> Any:
        if turn.clock is not None:
            turn.clock.batch_is_there(data)
        exchange = exchange_of(model.optimizer) if is_distributed(model.optimizer) else None
        if exchange is not None:
            turn.last.keep(data)
        samples = None if batches.are_alike else ops.samples_in(data)
        in_half, trained = computed_in_half(model), model.trainable_variables
        made = step.Step(turn, samples, batches.may_end_early, how, exchange, in_half, trained, data)
        drawn = nullcontext() if how.random is None else how.random.running()
        # TensorFlow may run operations that need no batch, such as the optimizer's step count, though none comes.
        with step.making(made), drawn, ops.after(ops.tensors_in(data)):
            if how.exchanges_early and exchange is not None:
                # Here, and not in a branch of the program's own, to which the tensor would belong.
                made.totals(exchange.process_set)
            with made.unchanged_at_the_end():
                logs = trains(data)
        if turn.clock is not None:
            turn.clock.step_ends()
        return logs

    return train_step


@dataclass(frozen=True)
class _Fit:
    """`Model.fit` on a rank; equal to another with the same saver, so that `patch` installs it once."""

    saver: Saver

    def __call__(self, stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        rank_state.here().variables.check()
        interrupted_fit.require_weights(model.optimizer)
        distributed = is_distributed(model.optimizer) and hvd.is_initialized() and hvd.size() > 1
        _shard_state(model)
        is_first = not distributed or exchange_of(model.optimizer).process_set.rank() == 0
        is_elsewhere = ops.is_one_program()
        is_sampled = run_context.is_sampled() and not is_elsewhere
        before: list[Any] = [Telemetry(lambda: clock_of(model), is_first=is_first)] if is_sampled else []
        after: list[Any] = []
        call = inspect.signature(stock).bind(model, *args, **kwargs)
        if run_context.current() is not None:
            before.append(GivenParameters(call.arguments))
        if distributed:
            first, last = _callbacks(model, call.arguments)
            before, after = before + first, after + last
        elif ranks_that_train() > 1 and not is_elsewhere:
            after = [_warning(model)]
        given: Any = call.arguments.get("callbacks")
        is_list = isinstance(given, keras.callbacks.CallbackList)
        listed = list(given.callbacks) if is_list else keras.tree.flatten(given or [])
        saving = self.saver(model, call.arguments, listed)
        after = [*after, *saving.callbacks]
        if not before and not after:
            return stock(model, *args, **kwargs)
        if is_list:
            given.callbacks[:] = [*before, *given.callbacks, *after]
            given.set_model(model)
        else:
            call.arguments["callbacks"] = [*before, *listed, *after]
        try:
            with saving.running(), interrupted_fit.noted(model.optimizer):
                return stock(*call.args, **call.kwargs)
        finally:
            _batches.pop(model, None)


def _train_on_batch(stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    rank_state.here().variables.check()
    _shard_state(model)
    logs = stock(model, *args, **kwargs)
    if is_distributed(model.optimizer) and model not in _batches and hvd.is_initialized():
        exchange = exchange_of(model.optimizer)
        if same_batches.matter(exchange.process_set):
            # Each call is an exchange of all these ranks, so the last that is compared is the same call on all.
            on_batch.after_call(model, exchange, lambda: turn_of(model).last.batch)
    return logs


def _shard_state(model: Any) -> None:
    """Shard the state of a model's optimizer, where `--memory` asks for it. Collective then.

    Raises:
        InvalidInput: the optimizer exchanges nothing; or its state cannot be sharded.
    """
    if not manner().shards_state or ranks_that_train() == 1:
        return
    if not is_distributed(model.optimizer):
        raise InvalidInput(
            "--memory shard-optimizer divides the state of an optimizer that exchanges its gradients.",
            f"a plain {type(model.optimizer).__name__} on {ranks_that_train()} ranks",
            "Add --auto, or hvd.DistributedOptimizer.",
        )
    if not model.built:
        raise InvalidInput(
            "--memory shard-optimizer takes a model that has its weights when training begins.",
            f"{model.name}, which is not built",
            "Begin it with keras.Input, or call model.build(input_shape).",
        )
    shard_state(model.optimizer, model.trainable_variables)


def _callbacks(model: Any, arguments: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the callbacks that go before the user's, and those that go after them.

    Collective: every rank of the optimizer's process set must call this.
    """
    exchange = exchange_of(model.optimizer)
    process_set = exchange.process_set
    if not process_set.included() or process_set.size() == 1:
        return [], []
    if process_set.rank() == 0:
        warn_of_unsynchronized(model)
    batches = _batches[model] = agree(arguments, process_set, interrupted_fit.state(model.optimizer))
    seen = None
    if same_batches.matter(process_set):
        compared = same_batches.Batches(
            process_set,
            same_batches.remedy_for(arguments.get("x")),
            are_meant=exchange.same_batches,
            are_all=batches.all_have is not None and batches.all_have <= same_batches.FIRST_BATCHES,
        )
        seen = Seen(compared, lambda: turn_of(model).last.batch)
    in_step = InStep(process_set, batches, exchange.on_drift or run_context.options().on_drift, seen)
    epoch_barrier = EpochBarrier(functools.partial(turn_of, model), in_step.after_step, batches, process_set)
    # A single step is how programs give an optimizer its variables before they load or broadcast a state.
    is_single = batches.all_have == 1 and arguments.get("epochs", 1) - arguments.get("initial_epoch", 0) == 1
    together = [interrupted_fit.Together(process_set)] if batches.was_cut else []
    return [*together, epoch_barrier, SamplesSeen()], [] if is_single else [in_step]


def _warning(model: Any) -> Unexchanged:
    return Unexchanged(lambda: turn_of(model).exchanges)


def clock_of(model: Any) -> Clock | None:
    """Return what measures the steps of a model's train function; None before it is made."""
    made = _made.get(model)
    return made.turn.clock if made is not None else None


def turn_of(model: Any) -> step.Turn:
    """Return the turn that the step of a model's train function takes."""
    return _made[model].turn
