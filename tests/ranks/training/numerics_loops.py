"""Findings on horovod.tensorflow's own functions with Keras 3 variables."""

from __future__ import annotations

from functools import partial
from typing import Any

import horovod.tensorflow
import keras
import numpy as np
import tensorflow as tf
from numerics_harness import finding
from numerics_models import (
    alone,
    dense_model,
    embedding_model,
    global_batches,
    identical_everywhere,
    largest,
    loss_function,
    seeded,
    shard,
    shared_out,
)

import jupyter_ddl.keras as hvd

SGD = partial(keras.optimizers.SGD, 0.1, momentum=0.9)


def by_tape(model: Any, optimizer: Any, batches: Any, **options: Any) -> None:
    """Train as Horovod's custom-loop examples do, with a plain optimizer."""
    loss_of = loss_function()
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        tape = horovod.tensorflow.DistributedGradientTape(tape, **options)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for x, y in batches:
        step(tf.constant(x), tf.constant(y))


@finding
def distributed_tape() -> dict[str, Any]:
    wanted = shared_out({m.__name__: partial(alone, m, SGD()) for m in (dense_model, embedding_model)})
    answers = {}
    for name, make_model, options in (
        ("dense", dense_model, {}),
        ("embedding", embedding_model, {}),
        ("embedding as dense", embedding_model, {"sparse_as_dense": True}),
    ):
        model = seeded(make_model)
        by_tape(model, SGD(), shard(global_batches(model)), **options)
        answers[name] = {
            "difference": largest(model.get_weights(), wanted[make_model.__name__]),
            "identical": identical_everywhere(model.get_weights()),
        }
    return answers


@finding
def broadcast_variables() -> dict[str, Any]:
    """horovod.tensorflow.broadcast_variables on a model's and an optimizer's variables, from the last rank."""
    root = hvd.size() - 1
    keras.utils.set_random_seed(hvd.rank())
    model = dense_model()
    optimizer = keras.optimizers.Adam(0.1 * (hvd.rank() + 1))
    optimizer.build(model.trainable_variables)
    before = identical_everywhere(model.get_weights())
    wanted = hvd.broadcast_object([w.numpy() for w in (*model.variables, *optimizer.variables)], root)
    horovod.tensorflow.broadcast_variables(model.variables, root_rank=root)
    horovod.tensorflow.broadcast_variables(optimizer.variables, root_rank=root)
    found = [w.numpy() for w in (*model.variables, *optimizer.variables)]
    return {"identical before": before, "root's": all(map(np.array_equal, found, wanted))}
