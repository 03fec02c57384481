"""Findings on what Keras does to gradients and weights besides: after the exchange it must be as in one process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from numerics_harness import finding
from numerics_models import (
    CLASSES,
    FEATURES,
    STEPS,
    WAYS,
    alone,
    by_fit,
    conv_model,
    dense_model,
    distances,
    embedding_model,
    global_batches,
    identical_everywhere,
    largest,
    seeded,
    shard,
    shared_out,
    some_of,
)

import jupyter_ddl.keras as hvd

if TYPE_CHECKING:
    from collections.abc import Callable


def frozen_model() -> Any:
    model = dense_model()
    model.layers[0].trainable = False
    return model


def shared_model() -> Any:
    """The same layer twice: one gradient, from both of its places."""
    inputs = keras.Input((FEATURES,))
    shared = keras.layers.Dense(FEATURES, activation="tanh")
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(shared(shared(inputs))))


def without_decay_of_biases() -> Any:
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def two_named_layers() -> Any:
    hidden = keras.layers.Dense(12, activation="tanh", name="hidden")
    return keras.Sequential([keras.Input((FEATURES,)), hidden, keras.layers.Dense(CLASSES, name="head")])


def one_for_each_layer() -> Any:
    chosen = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.1, momentum=0.9))
    chosen["head/.*"] = keras.optimizers.Adagrad(0.1)
    return keras.optimizers.MultiOptimizer(chosen)


SGD = partial(keras.optimizers.SGD, 0.2, momentum=0.9)
SCHEDULES = keras.optimizers.schedules
# Name -> model, optimizer, way to train. Each setting is strong enough to matter: `test_numerics_training` asserts it.
CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "clipnorm": (dense_model, partial(SGD, clipnorm=0.05), "fit"),
    "clipnorm of slices": (embedding_model, partial(SGD, clipnorm=0.02), "loop"),
    "global_clipnorm": (conv_model, partial(SGD, global_clipnorm=0.1), "fit"),
    "global_clipnorm of slices": (embedding_model, partial(SGD, global_clipnorm=0.05), "loop"),
    "clipvalue": (dense_model, partial(SGD, clipvalue=0.01), "batch"),
    "averages of weights": (dense_model, partial(SGD, use_ema=True, ema_momentum=0.9), "fit"),
    "averages that overwrite": (
        dense_model,
        partial(SGD, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=4),
        "loop",
    ),
    "weight decay": (dense_model, partial(SGD, weight_decay=0.05), "loop"),
    "weight decay without biases": (dense_model, without_decay_of_biases, "fit"),
    "cosine schedule": (
        dense_model,
        lambda: keras.optimizers.SGD(SCHEDULES.CosineDecay(0.5, STEPS), momentum=0.9),
        "fit",
    ),
    "exponential schedule": (
        conv_model,
        lambda: keras.optimizers.Adagrad(SCHEDULES.ExponentialDecay(0.2, 5, 0.5, staircase=True)),
        "loop",
    ),
    "gradient accumulation": (dense_model, partial(SGD, gradient_accumulation_steps=4), "fit"),
    "fixed loss scale": (dense_model, partial(SGD, loss_scale_factor=1024.0), "fit"),
    "optimizer of several": (two_named_layers, one_for_each_layer, "fit"),
    "frozen layer": (frozen_model, SGD, "fit"),
    "shared layer": (shared_model, SGD, "fit"),
}
if not hasattr(keras.optimizers, "OptimizerMap"):
    # Keras 3.12, the newest for Python 3.10.
    del CASES["optimizer of several"]
# Each way in which Keras changes gradients, weights or steps, and each way to train.
KINDS = (
    "clipnorm of slices",
    "global_clipnorm",
    "clipvalue",
    "averages of weights",
    "weight decay without biases",
    "exponential schedule",
    "gradient accumulation",
    "fixed loss scale",
    "optimizer of several",
    "frozen layer",
)
ONE_OF_EACH_KIND = tuple(name for name in KINDS if name in CASES)


@finding
def features() -> dict[str, Any]:
    cases = some_of(CASES, ONE_OF_EACH_KIND)
    wanted = shared_out({name: partial(alone, make, optimizer()) for name, (make, optimizer, _) in cases.items()})
    answers = {}
    for name, (make_model, make_optimizer, way) in cases.items():
        model = seeded(make_model)
        start = model.get_weights()
        optimizer = hvd.DistributedOptimizer(make_optimizer())
        WAYS[way](model, optimizer, shard(global_batches(model)))
        if way != "fit":
            optimizer.finalize_variable_values(model.trainable_variables)
        weights = model.get_weights()
        answers[name] = {
            "difference": largest(weights, wanted[name]),
            "moved": distances(weights, start),
            "iterations": int(optimizer.iterations.numpy()),
            "identical": identical_everywhere([*weights, *(v.numpy() for v in optimizer.variables)]),
        }
    return answers


@finding
def effects() -> dict[str, float]:
    """How far each setting takes the weights from where they would be without it: all must have an effect."""
    if hvd.size() == 1:
        return {}
    settings = {
        name: (make, optimizer)
        for name, (make, optimizer, _) in some_of(CASES, ONE_OF_EACH_KIND).items()
        if isinstance(optimizer, partial) and optimizer.keywords.keys() > SGD.keywords.keys()
    }
    models = {make.__name__: make for make, _ in settings.values()}
    plain = shared_out({name: partial(alone, make, SGD()) for name, make in models.items()})
    wanted = shared_out({name: partial(alone, make, optimizer()) for name, (make, optimizer) in settings.items()})
    return {name: largest(wanted[name], plain[make.__name__]) for name, (make, _) in settings.items()}


@finding
def several_optimizers() -> dict[str, Any]:
    """Two models and two optimizers in one step, as in a GAN or an encoder with a head of its own."""

    def train(distribute: Callable[[Any], Any], batches: Any) -> list[Any]:
        keras.utils.set_random_seed(3)
        encoder = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(8, activation="tanh")])
        head = keras.Sequential([keras.Input((8,)), keras.layers.Dense(CLASSES)])
        pairs = [
            (encoder, distribute(keras.optimizers.SGD(0.1, momentum=0.9))),
            (head, distribute(keras.optimizers.Adagrad(0.1))),
        ]
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for part, optimizer in pairs:
            optimizer.build(part.trainable_variables)

        @tf.function
        def step(x: Any, y: Any) -> None:
            with tf.GradientTape(persistent=True) as tape:
                loss = loss_of(y, head(encoder(x)))
            for part, optimizer in pairs:
                optimizer.apply(tape.gradient(loss, part.trainable_variables), part.trainable_variables)

        for x, y in batches:
            step(tf.constant(x), tf.constant(y))
        return [*encoder.get_weights(), *head.get_weights()]

    batches = global_batches(dense_model())
    together = train(hvd.DistributedOptimizer, shard(batches))
    return {
        "difference": largest(together, train(lambda optimizer: optimizer, batches)),
        "identical": identical_everywhere(together),
    }


COMPILED: dict[str, dict[str, Any]] = {
    "jit_compile=False": {"jit_compile": False},
    "jit_compile=True": {"jit_compile": True},
    'jit_compile="auto"': {"jit_compile": "auto"},
    "run_eagerly": {"run_eagerly": True},
    "steps_per_execution, XLA": {"steps_per_execution": 4, "jit_compile": True},
    "steps_per_execution": {"steps_per_execution": 4},
}
# test_training trains with steps_per_execution alone, and all other cases with "auto".
ONE_OF_EACH_WAY = ("jit_compile=True", "run_eagerly", "steps_per_execution, XLA")


@finding
def ways_of_compiling() -> dict[str, Any]:
    """The same training, however the step is compiled, against one process."""
    wanted = alone(conv_model, SGD())
    answers = {}
    for name, options in some_of(COMPILED, ONE_OF_EACH_WAY).items():
        model = seeded(conv_model)
        optimizer = hvd.DistributedOptimizer(SGD())
        by_fit(model, optimizer, shard(global_batches(model)), compiled=options)
        answers[name] = {
            "difference": largest(model.get_weights(), wanted),
            "identical": identical_everywhere(model.get_weights()),
            "iterations": int(optimizer.iterations.numpy()),
        }
    return answers
