"""Lets compile, fit, evaluate and predict take old arguments, and restores methods that Keras 3 dropped."""

from __future__ import annotations

import inspect
import math
from importlib import import_module
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.legacy.inputs import LOADING, configure, lasting, take_loading, whole
from jupyter_ddl.legacy.learning_phase import require_training_phase
from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import add_missing, wrap, wrap_method

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def patch_compile(keras: ModuleType) -> None:
    """Have `compile`, `fit`, `evaluate` and `predict` take the arguments that they took."""
    model = keras.Model
    wrap_method(model, "compile", _compile, ("experimental_run_tf_function",))
    # In the class in which the other layers wrap them.
    wrap(model, "fit", _fit, tuple(LOADING))
    wrap(model, "evaluate", _evaluate_or_predict, tuple(LOADING))
    wrap(model, "predict", _evaluate_or_predict, tuple(LOADING))
    wrap(model, "train_on_batch", _on_batch, ("reset_metrics",))
    wrap(model, "test_on_batch", _on_batch, ("reset_metrics",))


def add_generators(keras: ModuleType) -> None:
    """Give models `fit_generator`, `evaluate_generator` and `predict_generator`."""
    for name, method in {
        "fit_generator": fit_generator,
        "evaluate_generator": evaluate_generator,
        "predict_generator": predict_generator,
    }.items():
        add_missing(keras.Model, name, method)


def add_predict_classes(keras: ModuleType) -> None:
    """Give Sequential models `predict_classes` and `predict_proba`."""
    for name, method in {"predict_classes": predict_classes, "predict_proba": predict_proba}.items():
        add_missing(keras.Sequential, name, method)


# --- compile -------------------------------------------------------------------------------------------------------


def _compile(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    if "experimental_run_tf_function" in kwargs:
        say("experimental_run_tf_function")
        del kwargs["experimental_run_tf_function"]
    if "experimental_steps_per_execution" in kwargs:
        say("experimental_steps_per_execution")
        kwargs["steps_per_execution"] = kwargs.pop("experimental_steps_per_execution")
    for name in ("target_tensors", "distribute", "sample_weight_mode", "cloning", "class_mode"):
        _drop_from_compile(name, kwargs)
    if len(args) > 2 and _are_metrics(args[2]):
        say("metrics as third argument")
        kwargs["metrics"] = args[2]
        if len(args) > 3:
            kwargs["loss_weights"] = args[3]
        args = args[:2]
    if isinstance(kwargs.get("metrics"), str):
        say("metrics='accuracy'")
        kwargs["metrics"] = [kwargs["metrics"]]
    stock(self, *args, **kwargs)


def _drop_from_compile(name: str, kwargs: dict[str, Any]) -> None:
    if name not in kwargs:
        return
    value = kwargs.pop(name)
    if name == "target_tensors" and value is not None:
        raise InvalidInput(
            "Keras 3 takes targets from the data that fit is given.",
            f"target_tensors={value!r}",
            "Pass them to fit, as y or in a tf.data.Dataset.",
        )
    say("compile's other arguments")


def _are_metrics(argument: Any) -> bool:
    """Return whether what Keras 3 takes as loss_weights is what Keras 2 took there: metrics."""
    if isinstance(argument, str):
        return True
    return isinstance(argument, (list, tuple)) and any(isinstance(one, str) or callable(one) for one in argument)


# --- fit, evaluate, predict ----------------------------------------------------------------------------------------


def _fit(stock: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    require_training_phase()
    _require_eager()
    loading = take_loading(kwargs)
    if "nb_epoch" in kwargs:
        say("nb_epoch")
        kwargs["epochs"] = kwargs.pop("nb_epoch")
    call = inspect.signature(stock).bind(self, *args, **kwargs)
    given = call.arguments
    for steps in ("steps_per_epoch", "validation_steps"):
        if given.get(steps) is not None:
            given[steps] = whole(given[steps])
    if isinstance(given.get("x"), GeneratorType):
        given.setdefault("shuffle", False)  # it cannot be shuffled; Keras 3 would warn
    shuffle = bool(given.get("shuffle", True))
    for data, steps, shuffled in (("x", "steps_per_epoch", shuffle), ("validation_data", "validation_steps", False)):
        if data in given:
            configure(given[data], loading)
            asked, given[data] = given[data], lasting(given[data], given.get(steps), shuffle=shuffled)
            if data == "x" and given[data] is not asked:
                given["shuffle"] = False  # it shuffles itself
    return stock(*call.args, **call.kwargs)


def _evaluate_or_predict(stock: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    loading = take_loading(kwargs)
    call = inspect.signature(stock).bind(self, *args, **kwargs)
    given = call.arguments
    if given.get("steps") is not None:
        given["steps"] = whole(given["steps"])
    if "x" in given:
        configure(given["x"], loading)
        given["x"] = lasting(given["x"], given.get("steps"), shuffle=False)
    return stock(*call.args, **call.kwargs)


def _on_batch(stock: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    if "reset_metrics" in kwargs:
        if not kwargs.pop("reset_metrics"):
            raise InvalidInput(
                "train_on_batch and test_on_batch of Keras 3 report their own batch alone.",
                "reset_metrics=False",
                "Leave it out, and average what they return.",
            )
        say("reset_metrics")
    return stock(self, *args, **kwargs)


def _require_eager() -> None:
    tf = import_module("tensorflow")
    if not tf.executing_eagerly() and not tf.inside_function():
        raise InvalidInput(
            "Keras 3 trains eagerly.",
            "tf.compat.v1.disable_eager_execution() or disable_v2_behavior() was called, or fit inside a tf.Graph",
            "Leave that call out; in a notebook, restart the ranks too.",
        )


# --- methods that are gone -----------------------------------------------------------------------------------------


def fit_generator(
    self: Any,
    generator: Any,
    steps_per_epoch: float | None = None,
    epochs: int = 1,
    verbose: Any = 1,
    callbacks: Any = None,
    validation_data: Any = None,
    validation_steps: float | None = None,
    validation_freq: Any = 1,
    class_weight: Any = None,
    max_queue_size: int = 10,
    workers: int = 1,
    use_multiprocessing: bool = False,
    shuffle: bool = True,
    initial_epoch: int = 0,
    **keras_1: Any,
) -> Any:
    """Train on what a generator or Sequence yields, with Keras 2's arguments in Keras 2's order."""
    say("fit_generator")
    loading = {"max_queue_size": max_queue_size, "workers": workers, "use_multiprocessing": use_multiprocessing}
    configure(generator, loading)
    configure(validation_data, loading)
    if "samples_per_epoch" in keras_1:
        steps_per_epoch = _steps(keras_1.pop("samples_per_epoch"), generator, "samples_per_epoch")
    if "nb_val_samples" in keras_1:
        validation_steps = _steps(keras_1.pop("nb_val_samples"), validation_data, "nb_val_samples")
    return self.fit(
        generator,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        verbose=verbose,
        callbacks=callbacks,
        validation_data=validation_data,
        validation_steps=validation_steps,
        validation_freq=validation_freq,
        class_weight=class_weight,
        **({} if shuffle else {"shuffle": False}),
        initial_epoch=initial_epoch,
        **keras_1,
    )


def _steps(samples: int, data: Any, argument: str) -> int:
    """Return Keras 1's number of samples as a number of batches."""
    batch_size: int | None = getattr(data, "batch_size", None)
    if not batch_size:
        raise InvalidInput(
            "An epoch is counted in batches.",
            f"{argument}={samples}, with a generator that does not tell its batch_size",
            "Pass steps_per_epoch (or validation_steps), the samples divided by the batch size.",
        )
    say("samples_per_epoch")
    return math.ceil(samples / batch_size)


def evaluate_generator(
    self: Any,
    generator: Any,
    steps: float | None = None,
    callbacks: Any = None,
    max_queue_size: int = 10,
    workers: int = 1,
    use_multiprocessing: bool = False,
    verbose: Any = 0,
) -> Any:
    """Evaluate on what a generator or Sequence yields, with Keras 2's arguments in Keras 2's order."""
    say("evaluate_generator")
    loading = {"max_queue_size": max_queue_size, "workers": workers, "use_multiprocessing": use_multiprocessing}
    configure(generator, loading)
    return self.evaluate(generator, steps=steps, callbacks=callbacks, verbose=verbose)


def predict_generator(
    self: Any,
    generator: Any,
    steps: float | None = None,
    callbacks: Any = None,
    max_queue_size: int = 10,
    workers: int = 1,
    use_multiprocessing: bool = False,
    verbose: Any = 0,
) -> Any:
    """Predict on what a generator or Sequence yields, with Keras 2's arguments in Keras 2's order."""
    say("predict_generator")
    loading = {"max_queue_size": max_queue_size, "workers": workers, "use_multiprocessing": use_multiprocessing}
    configure(generator, loading)
    return self.predict(generator, steps=steps, callbacks=callbacks, verbose=verbose)


def predict_classes(self: Any, x: Any, batch_size: int = 32, verbose: Any = 0) -> Any:
    """Return the class of each sample: the likeliest of several, or whether one output is above a half."""
    say("predict_classes")
    probabilities = self.predict(x, batch_size=batch_size, verbose=verbose)
    if probabilities.shape[-1] > 1:
        return probabilities.argmax(axis=-1)
    return (probabilities > 0.5).astype(np.int32)


def predict_proba(self: Any, x: Any, batch_size: int = 32, verbose: Any = 0) -> Any:
    """Return what `predict` does."""
    say("predict_classes")
    return self.predict(x, batch_size=batch_size, verbose=verbose)
