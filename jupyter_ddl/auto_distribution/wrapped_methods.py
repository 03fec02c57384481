"""Wraps for `--auto` the methods of Keras that train, evaluate and predict, and an optimizer's update.

They are wrapped once, when Keras is imported, and act as Keras's own unless the current run is to be distributed.

Runs on: every rank.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.auto_distribution import noise, same_data
from jupyter_ddl.auto_distribution.current_call import inside
from jupyter_ddl.auto_distribution.distributed_calls import options, refuse_elsewhere
from jupyter_ddl.auto_distribution.evaluation import evaluate
from jupyter_ddl.auto_distribution.fit import fit
from jupyter_ddl.auto_distribution.on_batch import test_on_batch, train_on_batch
from jupyter_ddl.auto_distribution.plan import printed
from jupyter_ddl.auto_distribution.prediction import predict
from jupyter_ddl.auto_distribution.refusals import refuse_optimizer
from jupyter_ddl.auto_distribution.saving import on_first_rank
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import seeds, step
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, TORCH, hvd, ops
from jupyter_ddl.training.optimizer.distribution import is_distributed, is_updating
from jupyter_ddl.training.unconverted import unconverted_around

if TYPE_CHECKING:
    from collections.abc import Callable


_TRAIN = ("fit", "train_on_batch")


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
    if BACKEND == TENSORFLOW:
        import tensorflow as tf

        patch(tf.GradientTape, "gradient", _gradient, Layer.AUTO, unconverted_around)


def begin() -> None:
    """Prepare the ranks for a cell that is to be distributed: start Horovod, seed alike, and reset the plan.

    Collective: every rank must call this.
    """
    printed().begin()
    if not hvd.is_initialized():
        hvd.init()
    if BACKEND == TORCH:
        # The group that was just made is no other program's: a loop of PyTorch's in this cell is divided, too.
        from jupyter_ddl.auto_distribution.torch_loops import loops

        loops.begin()
    if hvd.size() > 1:
        seeds.make_alike()
        same_data.warn_of_hashes()


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
        outer = inside.get()
        if self.name in _TRAIN and not outer:
            refuse_elsewhere(model.optimizer, f"model.{self.name}")
        is_validation = outer == "fit" and self.name == "evaluate" and "_use_cached_eval_dataset" in kwargs
        if options() is None or (outer and not is_validation):
            return stock(model, *args, **kwargs)
        arguments = dict(_signature(stock).bind(model, *args, **kwargs).arguments)
        del arguments["self"]
        token = inside.set(self.name)
        try:
            return self.distributed(stock, model, arguments)
        finally:
            inside.reset(token)


# Once for each method: it takes 30 microseconds, and is needed at each batch.
_signature = functools.cache(inspect.signature)


def _save(stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Save on rank 0."""
    outer = inside.get()
    if options() is None or outer == "save":
        return stock(*args, **kwargs)
    token = inside.set("save")
    try:
        return on_first_rank(stock, *args, all_are_here=not outer, **kwargs)
    finally:
        inside.reset(token)


def _fit(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    how = options()
    assert how is not None
    return fit(stock, model, arguments, how)


def _evaluate(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    how = options()
    assert how is not None
    return evaluate(stock, model, arguments, how)


def _apply(stock: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse an optimizer's update whose data no rank divides."""
    if not is_updating() and not is_distributed(self) and options() is not None:
        if not _is_averaged(self, *args, **kwargs):
            refuse_optimizer(self)
        printed().note(
            f"{type(self).__name__}, which compile does not have, updates with the ranks' mean gradients, at the "
            "learning rate that the program gave it."
        )
    return stock(self, *args, **kwargs)


def _is_averaged(optimizer: Any, _gradients: Any, trainable_variables: Any = None) -> bool:
    """Return whether the tape of the model's own step has averaged all gradients of an update over the ranks."""
    now = step.current()
    variables = list(trainable_variables or getattr(optimizer, "_trainable_variables", ()))
    return now is not None and bool(variables) and all(now.are_exchanged(variables))


def _is_trained(source: Any) -> bool:
    return ops.is_variable(source) and bool(source.trainable)


def _gradient(stock: Callable[..., Any], tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """Note the gradient of the program's own training loop, which `--auto` does not distribute."""
    if not inside.get() and options() is not None and any(map(_is_trained, keras.tree.flatten(sources))):
        printed().note(
            "Gradients that are taken outside of fit and train_on_batch are not distributed: each rank computes "
            "them on all data that it has. Put the step into a train_step of the model, and call fit."
        )
    return stock(tape, target, sources, *args, **kwargs)
