"""Wraps for `--auto` the methods of Keras that train, evaluate and predict, and an optimizer's update.

They are wrapped once, when Keras is imported, and act as Keras's own unless the current run is to be distributed.

Runs on: every rank.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from jupyter_ddl.auto_distribution import noise, same_data
from jupyter_ddl.auto_distribution.evaluation import evaluate
from jupyter_ddl.auto_distribution.fit import fit, is_ours
from jupyter_ddl.auto_distribution.on_batch import test_on_batch, train_on_batch
from jupyter_ddl.auto_distribution.plan import printed
from jupyter_ddl.auto_distribution.prediction import predict
from jupyter_ddl.auto_distribution.refusals import refuse_loop, refuse_optimizer, refuse_plain_cell
from jupyter_ddl.auto_distribution.saving import on_first_rank
from jupyter_ddl.engine import run_context
from jupyter_ddl.engine.patching import Layer, patch
from jupyter_ddl.training import seeds
from jupyter_ddl.training.optimizer.distributed_optimizer import DistributedMixin, is_distributed, is_updating
from jupyter_ddl.training.optimizer.early_exchange import is_trained
from jupyter_ddl.training.unconverted import unconverted_around

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.protocol.cell_options import AutoOptions

# Keras's methods call each other, and a program's callbacks call them: a call inside another is this rank's own, except
# the validation of `fit`.
_TRAIN = ("fit", "train_on_batch")
_inside: ContextVar[str] = ContextVar("the method that is being distributed", default="")


def install() -> None:
    """Wrap the methods. Safe to call twice."""
    for name, distributed in {
        "fit": _fit,
        "evaluate": _evaluate,
        "predict": predict,
        "train_on_batch": train_on_batch,
        "test_on_batch": test_on_batch,
    }.items():
        patch(keras.Model, name, _Distributed(name, distributed), Layer.AUTO)
    for owner, name in (
        (keras.Model, "save"),
        (keras.Model, "save_weights"),
        (keras.Model, "export"),
        (keras.saving, "save_model"),
        (keras.saving, "save_weights"),
        (keras.models, "save_model"),
    ):
        patch(owner, name, _save, Layer.AUTO)
    noise.install()
    patch(keras.optimizers.Optimizer, "apply", _apply, Layer.AUTO)
    patch(DistributedMixin, "apply", _apply_distributed, Layer.AUTO, unconverted_around)
    patch(tf.GradientTape, "gradient", _gradient, Layer.AUTO, unconverted_around)


def begin() -> None:
    """Prepare the ranks for a cell that is to be distributed: start Horovod, seed alike, and reset the plan.

    Collective: every rank must call this.
    """
    printed().begin()
    if not hvd.is_initialized():
        hvd.init()
    if hvd.size() > 1:
        seeds.make_alike()
        same_data.warn_of_hashes()


def _options() -> AutoOptions | None:
    """Return how the current run is to be distributed; None where it is not, or there is only one rank."""
    auto = run_context.options().auto
    return auto if auto is not None and hvd.size() > 1 else None


@dataclass(frozen=True)
class _Distributed:
    """Runs a method of a model on all ranks together.

    Attributes:
        name: of the method.
        distributed: takes the stock method, the model, and the arguments by name.
    """

    name: str
    distributed: Callable[[Any, Any, dict[str, Any]], Any]

    def __call__(self, stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        outer = _inside.get()
        if self.name in _TRAIN and not outer:
            _refuse_elsewhere(model.optimizer, f"model.{self.name}")
        is_validation = outer == "fit" and self.name == "evaluate" and "_use_cached_eval_dataset" in kwargs
        if _options() is None or (outer and not is_validation):
            return stock(model, *args, **kwargs)
        arguments = dict(_signature(stock).bind(model, *args, **kwargs).arguments)
        del arguments["self"]
        token = _inside.set(self.name)
        try:
            return self.distributed(stock, model, arguments)
        finally:
            _inside.reset(token)


# Once for each method: it takes 30 microseconds, and is needed at each batch.
_signature = functools.cache(inspect.signature)


def _refuse_elsewhere(optimizer: Any, what: str) -> None:
    """Raise where an optimizer that `--auto` has distributed trains in a cell that is not to be distributed.

    Raises:
        InvalidInput: it does.
    """
    running = run_context.current()
    if running is not None and running.options.auto is None and is_ours(optimizer):
        refuse_plain_cell(what, independent=running.options.independent)


def _save(stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Save on rank 0."""
    outer = _inside.get()
    if _options() is None or outer == "save":
        return stock(*args, **kwargs)
    token = _inside.set("save")
    try:
        return on_first_rank(stock, *args, all_are_here=not outer, **kwargs)
    finally:
        _inside.reset(token)


def _fit(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    options = _options()
    assert options is not None
    return fit(stock, model, arguments, options)


def _evaluate(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    options = _options()
    assert options is not None
    return evaluate(stock, model, arguments, options)


def _apply(stock: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse an optimizer's update whose data no rank divides."""
    if not is_updating() and not is_distributed(self) and _options() is not None:
        refuse_optimizer(self)
    return stock(self, *args, **kwargs)


def _apply_distributed(stock: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse a distributed optimizer's update outside of the training that `--auto` divides."""
    if is_ours(self) and not _inside.get():
        _refuse_elsewhere(self, f"an update by {self.__class__.__name__}")
        if _options() is not None:
            refuse_loop(self)
    return stock(self, *args, **kwargs)


def _gradient(stock: Callable[..., Any], tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """Note the gradient of the program's own training loop, which `--auto` does not distribute."""
    if not _inside.get() and _options() is not None and any(map(is_trained, tf.nest.flatten(sources))):
        printed().note(
            "Gradients that are taken outside of fit and train_on_batch are not distributed: each rank computes "
            "them on all data that it has. Put the step into a train_step of the model, and call fit."
        )
    return stock(tape, target, sources, *args, **kwargs)
