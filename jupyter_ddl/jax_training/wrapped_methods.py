"""Wraps the methods of Keras on JAX that train, evaluate, predict and save.

Runs on: every rank.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import keras
from keras.src.backend.jax import core, distribution_lib, trainer

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.jax_training import arrays, batches, callbacks, saving
from jupyter_ddl.jax_training.processes import covers_ranks, is_alone, is_auto
from jupyter_ddl.training.backends.jax_sharded import as_numpy, whole
from jupyter_ddl.training.optimizer.distribution import is_distributed

if TYPE_CHECKING:
    from collections.abc import Callable

_TRAIN = ("fit", "train_on_batch")
_METHODS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
_inside: ContextVar[bool] = ContextVar("jupyter_ddl_jax_inside", default=False)


def install() -> None:
    """Wrap the methods. Safe to call twice."""
    for name in _METHODS:
        patch(trainer.JAXTrainer, name, _Method(name), Layer.FIT)
    patch(trainer.JAXTrainer, "make_predict_function", _make_predict_function, Layer.FIT)
    patch(trainer.JAXEpochIterator, "_get_distributed_iterator", batches.iterator, Layer.DATA)
    patch(trainer, "_distribute_data", batches.distribute_data, Layer.DATA)
    patch(distribution_lib, "distribute_tensor", arrays.distribute_tensor, Layer.DATA)
    patch(core.JaxVariable, "__array__", as_numpy, Layer.DATA)
    for owner, name in (
        (keras.Model, "save"),
        (keras.Model, "save_weights"),
        (keras.saving, "save_model"),
        (keras.saving, "save_weights"),
        (keras.models, "save_model"),
    ):
        patch(owner, name, saving.save, Layer.AUTO)


@dataclass(frozen=True)
class _Method:
    """Runs a method of a model on all ranks together, or refuses it.

    Attributes:
        name: of the method.
    """

    name: str

    def __call__(self, stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if _inside.get() or self._exchanges(model) or not (covers_ranks() or self._is_refused(model)):
            return stock(model, *args, **kwargs)
        if self.name in _TRAIN and not is_alone():
            _check_precision(model)
        arrays.make_global(model)
        token = _inside.set(True)
        try:
            if self.name != "fit":
                return stock(model, *args, **kwargs)
            bound = inspect.signature(stock).bind(model, *args, **kwargs)
            bound.arguments["callbacks"] = callbacks.arranged(bound.arguments.get("callbacks"))
            if jax.process_index():
                bound.arguments["verbose"] = 0
            if model.built:
                arrays.check_alike(model, "before the training")
            history = stock(*bound.args, **bound.kwargs)
            arrays.check_alike(model, "after the training")
            return history
        finally:
            _inside.reset(token)

    def _exchanges(self, model: Any) -> bool:
        """Return whether a model's own steps exchange its gradients, in arrays of each rank's own.

        Raises:
            InvalidInput: they do, and Keras is to spread the arrays as well.
        """
        if not is_distributed(model.optimizer):
            return False
        if covers_ranks():
            raise InvalidInput(
                "On JAX a model is distributed once: by its optimizer, or by Keras.",
                f"model.{self.name} with an optimizer that exchanges, under a distribution over the ranks",
                "Call model.compile with a plain optimizer for --auto --batch global; leave --batch global out for an "
                "optimizer that exchanges.",
            )
        return True

    def _is_refused(self, model: Any) -> bool:
        """Return False where a rank may do this by itself.

        Raises:
            InvalidInput: several ranks would train models of their own; or the model is one of all ranks.
        """
        if arrays.is_global(model):
            raise InvalidInput(
                "A model of all ranks is used by all of them together.",
                f"model.{self.name} in a cell without a distribution of Keras's over the ranks",
                "Write %%distributed --auto --batch global.",
            )
        if self.name in _TRAIN and not is_alone():
            raise InvalidInput(
                "Several ranks train one model, with Keras on JAX by keras.distribution.",
                f"model.{self.name} on a model of each rank's own",
                "Write %%distributed --auto --batch global, or set keras.distribution.DataParallel over all devices; "
                "for a model of its own on each rank, --independent.",
            )
        return False


def _check_precision(model: Any) -> None:
    """Check that nothing is summed in float16 by JAX's gloo.

    On 4 ranks one in some 10,000 of its sums is one of the two summands (jax 0.10.2): deterministic, by their values.
    bfloat16 is summed in float32.

    Raises:
        InvalidInput: the model computes in it on cores.
    """
    in_half = [layer.name for layer in model._flatten_layers() if getattr(layer, "compute_dtype", None) == "float16"]
    if in_half and jax.default_backend() == "cpu":
        raise InvalidInput(
            "Several ranks of Keras on JAX train in float16 on GPUs only: on cores JAX's exchange loses parts of sums.",
            f"{model.name}, which computes {in_half[0]} in float16",
            "Write keras.config.set_dtype_policy('mixed_bfloat16'), or train on KERAS_BACKEND=torch or tensorflow.",
        )


def _make_predict_function(stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the predict function return what all ranks have computed, as arrays of NumPy's."""
    had = model.predict_function
    answer = stock(model, *args, **kwargs)
    made = model.predict_function
    if made is had or not covers_ranks():
        return answer
    is_whole = is_auto()

    def predict(state: Any, iterator: Any) -> Any:
        outputs, state = made(state, iterator)
        return jax.tree_util.tree_map(whole if is_whole else _own, outputs), state

    model.predict_function = predict
    return answer


def _own(output: Any) -> Any:
    """Return this rank's rows, of what it passed."""
    rank, ranks = jax.process_index(), jax.process_count()
    rows = output.shape[0] // ranks
    return whole(output)[rank * rows : (rank + 1) * rows]
