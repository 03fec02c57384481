"""Learning rates over steps and epochs, and momentum under them: findings of callbacks_program.py."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from callbacks_reference import RATE, STEPS, X, Y
from findings import error_text, finding, printed

import jupyter_ddl.keras as hvd

if TYPE_CHECKING:
    from collections.abc import Callable


class Rates(keras.callbacks.Callback):
    """Notes the learning rate of each step. Comes after the callback that sets it."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.rates.append(float(self.model.optimizer.learning_rate))


def linear(optimizer: Any, **options: Any) -> Any:
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="float64"),
            keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False, dtype="float64"),
        ]
    )
    # The rates are what is looked at: all ranks have the same data.
    model.compile(hvd.DistributedOptimizer(optimizer, same_batches=True), loss="mse", **options)
    return model


def usual() -> Any:
    return keras.optimizers.SGD(RATE)


@cache
def kept(make: Callable[[], Any], **options: Any) -> tuple[Any, list[Any]]:
    """Return a model that is traced once for all trainings, and the values from which they begin."""
    model = linear(make(), **options)
    model.optimizer.build(model.trainable_variables)
    return model, [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]


def at_its_start(make: Callable[[], Any], **options: Any) -> Any:
    model, values = kept(make, **options)
    for variable, value in zip((*model.variables, *model.optimizer.variables), values, strict=True):
        variable.assign(value)
    return model


def train(callback: Any, make: Callable[[], Any] = usual, epochs: int = 4, **options: Any) -> dict[str, Any]:
    model = at_its_start(make, **options.pop("compile", {}))
    rates = Rates()
    history = model.fit(
        X, Y, batch_size=8, epochs=epochs, shuffle=False, callbacks=[callback, rates], verbose=0, **options
    )
    return {
        "rates": rates.rates,
        "lr": [float(value) for value in history.history["lr"]],
        "weights": model.get_weights()[0].ravel().tolist(),
        "last": float(model.optimizer.learning_rate),
    }


@finding
def warm_up() -> dict[str, Any]:
    warmup = hvd.callbacks.LearningRateWarmupCallback
    return {
        "usual": train(warmup(RATE, warmup_epochs=3)),
        "given steps": train(warmup(RATE, 2, steps_per_epoch=STEPS)),
        "half an epoch": train(warmup(RATE, 0.5)),
        "none": train(warmup(RATE, 0)),
        "steps in one execution": train(warmup(RATE, 3), compile={"steps_per_execution": 2}),
        "resumed": train(warmup(RATE, 3), initial_epoch=2),
        "scaled loss": train(
            warmup(RATE, 3), lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(RATE, momentum=0.9))
        ),
    }


@finding
def schedules() -> dict[str, Any]:
    schedule = hvd.callbacks.LearningRateScheduleCallback
    return {
        "number": train(schedule(RATE, 0.5, start_epoch=1, end_epoch=3)),
        "function": train(schedule(RATE, lambda epoch: 1 / (1 + epoch))),
        "smooth": train(schedule(RATE, lambda epoch: 1 / (1 + epoch), staircase=False)),
    }


OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(RATE / 4, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(RATE / 4, momentum=0.9, nesterov=True),
    "RMSprop": lambda: keras.optimizers.RMSprop(RATE / 40, momentum=0.9),
    "plain SGD": lambda: keras.optimizers.SGD(RATE / 4),
}


@finding
def momentum() -> dict[str, Any]:
    """A learning rate that changes at each step, with and without the correction."""
    answers = {}
    for name, make in OPTIMIZERS.items():
        for corrected in (True, False):
            callback = hvd.callbacks.LearningRateScheduleCallback(
                RATE / (40 if name == "RMSprop" else 4),
                lambda epoch: 1 / (1 + 3 * epoch),
                staircase=False,
                momentum_correction=corrected,
            )
            answers[f"{name}, {corrected}"] = train(callback, make, epochs=2)
    return answers


@finding
def older_horovod() -> dict[str, Any]:
    """The learning rate is taken from the optimizer."""
    answers: dict[str, Any] = {}

    def keyword() -> None:
        answers["keyword"] = train(hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=3, verbose=0))

    def positional() -> None:
        answers["positional"] = train(hvd.callbacks.LearningRateWarmupCallback(3))

    def schedule() -> None:
        answers["schedule"] = train(hvd.callbacks.LearningRateScheduleCallback(multiplier=0.5, start_epoch=2))

    said = [printed(function, "stderr") for function in (keyword, positional, schedule)]
    whole = train(hvd.callbacks.LearningRateWarmupCallback(2, 3), lambda: keras.optimizers.SGD(2.0), epochs=1)
    return {**answers, "said": said, "a rate that is a whole number": whole["rates"]}


@finding
def said_at_the_end() -> list[str]:
    callbacks = [hvd.callbacks.LearningRateWarmupCallback(RATE, epochs, verbose=1) for epochs in (2, 1.5)]
    return [printed(partial(train, callback)) for callback in callbacks]


@finding
def errors_of_rates() -> dict[str, str | None]:
    callbacks = hvd.callbacks
    unknown = tf.data.Dataset.from_generator(
        lambda: iter([(X[:8], Y[:8])]),
        output_signature=(tf.TensorSpec((8, 3), tf.float64), tf.TensorSpec((8, 1), tf.float64)),
    )
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    warm_up = callbacks.LearningRateWarmupCallback(RATE)

    def no_rate() -> None:
        callback = callbacks.LearningRateScheduleCallback(RATE, 0.5)
        callback.set_model(type("Model", (), {"optimizer": object()})())
        callback.on_train_begin()

    return {
        "schedule": error_text(lambda: train(warm_up, lambda: keras.optimizers.SGD(decay, name="sgd"))),
        "function": error_text(
            lambda: train(
                callbacks.LearningRateScheduleCallback(RATE, 0.5),
                lambda: keras.optimizers.Adam(lambda: 0.1, name="adam"),
            )
        ),
        "scaled": error_text(
            lambda: train(warm_up, lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(decay, name="sgd")))
        ),
        "no rate": error_text(no_rate),
        "steps": error_text(lambda: linear(keras.optimizers.SGD(RATE)).fit(unknown, callbacks=[warm_up], verbose=0)),
        "multiplier": error_text(lambda: callbacks.LearningRateScheduleCallback(RATE)),
        "epochs": error_text(lambda: callbacks.LearningRateWarmupCallback(RATE, -1)),
    }
