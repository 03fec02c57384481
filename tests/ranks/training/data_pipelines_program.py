"""Data pipelines on real ranks: what test_data_pipelines.py asserts. Run with a folder to work in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from findings import FOLDER, error_text, finding, printed, take_all
from mpi4py import MPI

import jupyter_ddl.keras as hvd
from jupyter_ddl import data

SAMPLES = 50


def numbers() -> Any:
    return tf.data.Dataset.range(SAMPLES)


def everyone(found: Any) -> Any:
    return MPI.COMM_WORLD.allgather(found)


def epoch(dataset: Any) -> list[int]:
    return [int(number) for batch in dataset.as_numpy_iterator() for number in np.ravel(batch)]


@finding
def places_are_horovod_s() -> list[list[int]]:
    return everyone(epoch(data.shard(numbers().shuffle(SAMPLES).batch(4))))


@finding
def parts_of_one_order() -> list[list[int]]:
    """Half of one order: a rank that drew another would take what is not its own."""
    keras.utils.set_random_seed(7)
    part = data.shard(numbers().shuffle(SAMPLES).take(SAMPLES // 2).batch(4))
    return [sorted(number for rank in everyone(epoch(part)) for number in rank) for _ in range(2)]


@finding
def an_order_of_each_rank_s_own() -> str | None:
    tf.random.set_seed(None)
    return error_text(lambda: data.shard(numbers().shuffle(SAMPLES).take(5).batch(2)))


@finding
def caches_of_this_node() -> dict[str, Any]:
    kept: list[Any] = []
    told = printed(lambda: kept.append(data.cache(data.shard(numbers()), FOLDER)))
    epochs = [epoch(kept[0]) for _ in range(2)]
    folders = everyone(sorted(path.name for path in Path(FOLDER).glob("jupyter_ddl-cache-*")))
    return {"told": told, "epochs": epochs, "folders": len(folders[0])}


def model_of_one_layer() -> Any:
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
    return model


def pair(number: Any) -> Any:
    return tf.fill([3], tf.cast(number, tf.float32) / SAMPLES), tf.cast(number, tf.float32)


@finding
def a_fit_of_shards() -> dict[str, Any]:
    """What all ranks together trained on in two epochs, and the weights that it left."""
    seen: list[int] = []

    def note(targets: Any) -> Any:
        seen.extend(targets.tolist())
        return targets

    part = data.cache(data.shard(numbers().map(pair))).shuffle(SAMPLES).batch(5)
    noted = part.map(lambda x, y: (x, tf.ensure_shape(tf.numpy_function(note, [y], tf.float32), [None])))
    model = model_of_one_layer()
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    model.fit(data.prefetch(noted), epochs=2, verbose=0, callbacks=callbacks)
    everything = sorted(int(number) for rank in everyone(seen) for number in rank)
    return {"seen": everything, "weights": hvd.check_in_sync(model)}


@finding
def one_rank_asks_for_advice() -> dict[str, Any]:
    """Its optimizer would wait for the other ranks, if the model took a step as in training."""
    found: dict[str, Any] = {}
    if hvd.rank() == 0:
        model = model_of_one_layer()
        before = hvd.weights_checksum(model)
        advice = data.advise(data.shard(numbers().map(pair)).batch(5), model, seconds=0.5)
        found = {"fed": advice.model_batches_per_s, "same": hvd.weights_checksum(model) == before}
    hvd.barrier()
    return found


take_all()
