"""Where `--auto` takes hold: the methods of Keras that train, evaluate and predict, and an optimizer's update.

They are wrapped once, when Keras is imported, and do nothing of their own unless what runs is to be distributed.

Runs on: every rank.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from jupyter_ddl.auto_distribution import noise, plan, same_data
from jupyter_ddl.auto_distribution.evaluation import evaluate
from jupyter_ddl.auto_distribution.fit import fit, is_ours
from jupyter_ddl.auto_distribution.on_batch import test_on_batch, train_on_batch
from jupyter_ddl.auto_distribution.prediction import predict
from jupyter_ddl.auto_distribution.refusals import refuse_loop, refuse_optimizer, refuse_plain_cell
from jupyter_ddl.auto_distribution.saving import on_first_rank
from jupyter_ddl.engine import run_context
from jupyter_ddl.training import seeds
from jupyter_ddl.training.optimizer.distributed_optimizer import DistributedMixin, is_distributed, is_updating
from jupyter_ddl.training.optimizer.early_exchange import is_trained
from jupyter_ddl.training.unconverted import unconverted

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.protocol.cell_options import AutoOptions

# Keras's methods call each other, and a program's callbacks call them: what is inside of one is this rank's own, but
# for the validation of `fit`.
_TRAIN = ("fit", "train_on_batch")
_inside: ContextVar[str] = ContextVar("the method that is being distributed", default="")


def install() -> None:
    """Wrap the methods. Safe to call twice."""
    if hasattr(keras.Model.fit, "__jupyter_ddl_auto__"):
        return
    for name, distributed in {
        "fit": _fit,
        "evaluate": _evaluate,
        "predict": predict,
        "train_on_batch": train_on_batch,
        "test_on_batch": test_on_batch,
    }.items():
        setattr(keras.Model, name, _wrapped(name, getattr(keras.Model, name), distributed))
    for owner, name in (
        (keras.Model, "save"),
        (keras.Model, "save_weights"),
        (keras.Model, "export"),
        (keras.saving, "save_model"),
        (keras.saving, "save_weights"),
        (keras.models, "save_model"),
    ):
        setattr(owner, name, _saving(getattr(owner, name)))
    noise.install()
    optimizer = keras.optimizers.Optimizer
    optimizer.apply = _watched(optimizer.apply)
    DistributedMixin.apply = _in_training(DistributedMixin.apply)  # type: ignore[method-assign]
    tf.GradientTape.gradient = _noted(tf.GradientTape.gradient)


def begin() -> None:
    """Make the ranks ready for a cell that is to be distributed: Horovod runs, they draw alike, and no plan is told.

    Collective: every rank must call this.
    """
    plan.begin()
    if not hvd.is_initialized():
        hvd.init()
    if hvd.size() > 1:
        seeds.make_alike()
        same_data.warn_of_hashes()


def _options() -> AutoOptions | None:
    """Return how what runs now is to be distributed; None where it is not, or there is nothing to divide among."""
    auto = run_context.options().auto
    return auto if auto is not None and hvd.size() > 1 else None


def _wrapped(name: str, stock: Callable[..., Any], distributed: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        outer = _inside.get()
        if name in _TRAIN and not outer:
            _refuse_elsewhere(self.optimizer, f"model.{name}")
        is_validation = outer == "fit" and name == "evaluate" and "_use_cached_eval_dataset" in kwargs
        if _options() is None or (outer and not is_validation):
            return stock(self, *args, **kwargs)
        arguments = dict(signature.bind(self, *args, **kwargs).arguments)
        del arguments["self"]
        token = _inside.set(name)
        try:
            return distributed(stock, self, arguments)
        finally:
            _inside.reset(token)

    method.__jupyter_ddl_auto__ = True  # type: ignore[attr-defined]
    return method


def _refuse_elsewhere(optimizer: Any, what: str) -> None:
    """Raise where an optimizer that `--auto` has distributed trains in a cell that is not to be distributed.

    Raises:
        InvalidInput: it does.
    """
    running = run_context.current()
    if running is not None and running.options.auto is None and is_ours(optimizer):
        refuse_plain_cell(what, independent=running.options.independent)


def _saving(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that saves on rank 0."""

    @functools.wraps(stock)
    def save(*args: Any, **kwargs: Any) -> Any:
        outer = _inside.get()
        if _options() is None or outer == "save":
            return stock(*args, **kwargs)
        token = _inside.set("save")
        try:
            return on_first_rank(stock, *args, all_are_here=not outer, **kwargs)
        finally:
            _inside.reset(token)

    return save


def _fit(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    options = _options()
    assert options is not None
    return fit(stock, model, arguments, options)


def _evaluate(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    options = _options()
    assert options is not None
    return evaluate(stock, model, arguments, options)


def _watched(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return an optimizer's `apply` that refuses updates of which nobody divides the data."""

    @functools.wraps(stock)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_updating() and not is_distributed(self) and _options() is not None:
            refuse_optimizer(self)
        return stock(self, *args, **kwargs)

    return apply


def _in_training(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a distributed optimizer's `apply` that refuses updates outside of the training that `--auto` divides."""

    @unconverted
    @functools.wraps(stock)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_ours(self) and not _inside.get():
            _refuse_elsewhere(self, f"an update by {self.__class__.__name__}")
            if _options() is not None:
                refuse_loop(self)
        return stock(self, *args, **kwargs)

    return apply


def _noted(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tape's `gradient` that says where it is of a loop of the program's own, which nothing distributes."""

    @unconverted
    @functools.wraps(stock)
    def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        if not _inside.get() and _options() is not None and any(map(is_trained, tf.nest.flatten(sources))):
            plan.note(
                "Gradients that are taken outside of fit and train_on_batch are not distributed: each rank computes "
                "them on all data that it has. Put the step into a train_step of the model, and call fit."
            )
        return stock(tape, target, sources, *args, **kwargs)

    return gradient
