"""One process of one side of the training benchmark.

Run by training_sides.py as `python -m benchmarks.training_program SIDE DATA ANSWER TRAINING...`. The first process
writes images a second of all processes together, by training, to ANSWER.

Runs on: every process of every side, on Python 3.9 and newer; jupyter_ddl is there on our side alone.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Way:
    """A way to train on some processes or devices.

    Attributes:
        keras: the Keras module.
        replicas: the copies of the model that train together, each on a batch of its own.
        writes: whether this process writes the answer.
        strategy: of tf.distribute, or None.
        distribute: makes an optimizer exchange its gradients.
        callbacks: makes those for one fit.
        allgather: gathers a value of every rank; None where the strategy itself keeps the replicas equal.
    """

    keras: Any
    replicas: int = 1
    writes: bool = True
    strategy: Any = None
    distribute: Callable[[Any], Any] = lambda optimizer: optimizer
    callbacks: Callable[[], list[Any]] = list
    allgather: Callable[[Any], Any] | None = None


def ours() -> Way:
    """Keras 3 with jupyter_ddl."""
    import keras

    import jupyter_ddl.keras as hvd

    return _horovod(keras, hvd)


def stock_horovod() -> Way:
    """Keras 2 with Horovod's own Keras layer."""
    import horovod.tensorflow.keras as hvd
    from tensorflow import keras

    return _horovod(keras, hvd)


def one_process() -> Way:
    """Keras 3 alone."""
    import keras

    return Way(keras)


def multi_worker() -> Way:
    """Keras 2 with MultiWorkerMirroredStrategy; TF_CONFIG says which worker this is."""
    import tensorflow as tf
    import tf_keras

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    first = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
    return Way(tf_keras, strategy.num_replicas_in_sync, first, strategy)


def mirrored() -> Way:
    """Keras 2 with MirroredStrategy, on two logical CPUs of one process."""
    import tensorflow as tf
    import tf_keras

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    return Way(tf_keras, strategy.num_replicas_in_sync, True, strategy)


WAYS = {
    "ours": ours,
    "stock Horovod": stock_horovod,
    "one process": one_process,
    "MultiWorkerMirrored": multi_worker,
    "Mirrored": mirrored,
}


def _horovod(keras: Any, hvd: Any) -> Way:
    hvd.init()
    return Way(
        keras,
        replicas=hvd.size(),
        writes=hvd.rank() == 0,
        distribute=hvd.DistributedOptimizer,
        callbacks=lambda: [hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
        allgather=hvd.allgather,
    )


def images_per_second(way: Way, data: Path, name: str) -> float:
    """Train on every process of this way; return the images per second of all of them together."""
    from benchmarks.training_models import TRAININGS, dataset, seconds_of_fit

    keras, training = way.keras, TRAININGS[name]
    with way.strategy.scope() if way.strategy else nullcontext():
        model = training.model(keras)
        optimizer = way.distribute(keras.optimizers.SGD(1e-4, momentum=0.9))
        model.compile(optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    if way.strategy:
        # Each worker makes batches of its own replicas' size: faster for them than sharding one global batch.
        batches = way.strategy.distribute_datasets_from_function(lambda _: dataset(data, training.batch_size))
    else:
        batches = dataset(data, training.batch_size)
    seconds = seconds_of_fit(keras, model, batches, training, way.callbacks())
    if way.allgather:
        _require_in_sync(way.allgather, model)
    return way.replicas * training.batch_size * training.steps / seconds


def _require_in_sync(allgather: Callable[[Any], Any], model: Any) -> None:
    """End this process unless all ranks hold the same weights: no exchange at all would be the fastest."""
    import numpy as np

    weights = model.get_weights()
    if not all(np.isfinite(weight).all() for weight in weights):
        sys.exit("The weights are no longer finite, and such numbers are computed at another speed.")
    mine = [[zlib.crc32(weight.tobytes()) for weight in weights]]
    every_rank = np.asarray(allgather(np.array(mine, "int64")))
    if not (every_rank == every_rank[0]).all():
        sys.exit("The ranks did not train in sync, so there is nothing to compare.")


def main() -> None:
    """Run this process's part."""
    side, data, answer, *trainings = sys.argv[1:]
    way = WAYS[side]()
    figures = {name: images_per_second(way, Path(data), name) for name in trainings}
    if way.writes:
        Path(answer).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
