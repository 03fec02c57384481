"""Trains under strategies of tf.distribute, with Keras 2 (`tf_keras`), on which alone all of them run.

Runs on: every process of a side.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl import strategies
from jupyter_ddl.scaling_program.training import BATCHES, Measured, count, timed, updated

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.scaling_program.training import Task

# Steps between two looks at the clock where workers do not wait for each other.
_BLOCK = 5


def mirrored(task: Task, replicas: int) -> Measured:
    """Train under MirroredStrategy in this one process: on its GPUs, or on so many logical CPUs."""
    import tensorflow as tf

    kind = "GPU" if len(tf.config.list_physical_devices("GPU")) >= replicas else "CPU"
    if kind == "CPU":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return _synchronous(task, tf.distribute.MirroredStrategy([f"{kind}:{i}" for i in range(replicas)]))


def multi_worker(task: Task, *, over_grpc: bool) -> Measured | None:
    """Train under MultiWorkerMirroredStrategy; return what was found on rank 0, None on others.

    Args:
        task: what is trained.
        over_grpc: exchange by TensorFlow's ring over gRPC, also where NCCL is there.
    """
    import tensorflow as tf
    from mpi4py import MPI

    strategies.set_tf_config()
    implementation = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementation.RING if over_grpc else implementation.AUTO
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    found = _synchronous(task, strategy)
    return found if MPI.COMM_WORLD.rank == 0 else None


def parameter_server(task: Task) -> Measured | None:
    """Train under ParameterServerStrategy, each worker at its own pace; return what was found on rank 0.

    A step is one update by each worker. Their losses come in the order in which the updates were scheduled.
    """
    from mpi4py import MPI

    os.environ["GRPC_FAIL_FAST"] = "use_caller"
    with strategies.parameter_server() as strategy:
        if strategy is None:
            return None
        return _asynchronous(task, strategy, MPI.COMM_WORLD.size)


def _synchronous(task: Task, strategy: Any) -> Measured:
    import tensorflow as tf
    import tf_keras

    tf_keras.utils.set_random_seed(0)
    with strategy.scope():
        parts = task.model.parts(tf_keras, task.size)
        for part in parts:
            part.optimizer.build(part.variables)
    found = Measured()
    count(found, parts)
    # Each replica's batches are on its device before the first step.
    by_replica: dict[int, Any] = {}

    def batch(i: int, context: Any, part: int) -> Any:
        replica = context.replica_id_in_sync_group
        if replica not in by_replica:
            by_replica[replica] = task.batches(replica)
        return tf.constant(by_replica[replica][i][part])

    values = strategy.experimental_distribute_values_from_function
    batches = [
        tuple(values(lambda context, i=i, part=part: batch(i, context, part)) for part in range(2))
        for i in range(BATCHES)
    ]

    @tf.function
    def step(x: Any, y: Any) -> Any:
        losses = strategy.run(_on_replica(parts, strategy), args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    timed(task, lambda i: step(*batches[i % BATCHES]), found)
    return found


def _on_replica(parts: Any, strategy: Any) -> Callable[[Any, Any], Any]:
    """Return what a replica does in a step."""

    def apply(part: Any, gradients: Any) -> None:
        # Keras 2 sums the gradients of the replicas that train in step; Horovod averages them.
        shares = [gradient / strategy.num_replicas_in_sync for gradient in gradients]
        part.optimizer.apply_gradients(zip(shares, part.variables, strict=True))

    return lambda x, y: updated(parts, apply, x, y)


def _asynchronous(task: Task, strategy: Any, workers: int) -> Measured:
    import tensorflow as tf
    import tf_keras

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        parts = task.model.parts(tf_keras, task.size)
        for part in parts:
            part.optimizer.build(part.variables)
    found = Measured()
    count(found, parts)

    def batches() -> Any:
        made = [task.batches(worker) for worker in range(workers)]
        arrays = [tf.concat([batch[part] for of_worker in made for batch in of_worker], 0) for part in range(2)]
        endless = tf.data.Dataset.from_tensor_slices(tuple(arrays)).batch(task.batch_size).repeat()
        # Workers begin at different batches, and take all of them.
        return endless.shuffle(BATCHES * workers)

    iterator = iter(coordinator.create_per_worker_dataset(batches))

    @tf.function
    def update(batches: Any) -> Any:
        return strategy.run(_on_replica(parts, strategy), args=next(batches))

    _timed_in_blocks(task, coordinator, lambda: coordinator.schedule(update, args=(iterator,)), workers, found)
    return found


def blocks(warm_up: int, steps: int) -> list[tuple[int, int]]:
    """Return (first step, steps) of each block: those of the warm-up, which are not timed, then short ones.

    Example:
        >>> blocks(10, 7)
        [(0, 10), (10, 5), (15, 2)]
    """
    end = warm_up + steps
    return [(0, warm_up), *((first, min(_BLOCK, end - first)) for first in range(warm_up, end, _BLOCK))]


def _timed_in_blocks(task: Task, coordinator: Any, schedule: Callable[[], Any], workers: int, found: Measured) -> None:
    """Take all steps in blocks, within which no worker waits for another one, and note them."""
    elapsed_s = 0.0
    for first, steps in blocks(task.warm_up, task.steps):
        began_s = time.perf_counter()
        losses = [schedule() for _ in range(steps * workers)]
        coordinator.join()
        took_s = (time.perf_counter() - began_s) / steps
        for i in range(steps):
            of_step = losses[i * workers : (i + 1) * workers]
            found.losses.append(float(sum(loss.fetch() for loss in of_step)) / workers)
            elapsed_s += took_s if first else 0.0
            found.elapsed_s.append(elapsed_s)
        if first >= task.warm_up:
            found.step_s.append(took_s)
