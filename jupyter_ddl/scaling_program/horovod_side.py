"""Trains on ranks that exchange gradients by Horovod: the explicit loop, one distributed optimizer for each part.

Runs on: every rank. Collective: every rank must call this.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import RanksOutOfSync
from jupyter_ddl.scaling_program import exchange
from jupyter_ddl.scaling_program.training import BATCHES, Measured, count, timed, updated

if TYPE_CHECKING:
    from jupyter_ddl.scaling_program.training import Task


def measure(task: Task) -> Measured | None:
    """Train; return what was found on rank 0, None on others."""
    import horovod.tensorflow.keras as hvd
    import keras
    import tensorflow as tf

    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    parts = task.model.parts(keras, task.size)
    local = [type(part.optimizer).from_config(part.optimizer.get_config()) for part in parts]
    optimizers = {id(part): hvd.DistributedOptimizer(part.optimizer) for part in parts}
    for part in parts:
        optimizers[id(part)].build(part.variables)
    variables = [variable for part in parts for variable in part.variables]
    hvd.broadcast_variables(variables, root_rank=0)
    batches = [(tf.constant(x), tf.constant(y)) for x, y in task.batches(hvd.rank())]
    found = Measured()
    count(found, parts)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return updated(parts, lambda part, gradients: optimizers[id(part)].apply(gradients, part.variables), x, y)

    timed(task, lambda i: step(*batches[i % BATCHES]), found)
    _require_in_sync(hvd, variables)
    found.losses = [float(loss) for loss in hvd.allreduce(tf.constant(found.losses, "float64"), op=hvd.Average)]
    if task.exchange:
        _compute(task, parts, local, batches, found)
        if hvd.size() > 1:
            exchange.measure(found, 4 * found.parameters)
    return found if hvd.rank() == 0 else None


def _require_in_sync(hvd: Any, variables: list[Any]) -> None:
    """End the side unless all ranks hold the same weights: to exchange nothing at all would be the fastest."""
    every_rank = hvd.allgather_object([zlib.crc32(variable.numpy().tobytes()) for variable in variables])
    if any(of_rank != every_rank[0] for of_rank in every_rank):
        raise RanksOutOfSync("The ranks of a benchmark must train one model. Received: other weights on each.")


def _compute(task: Task, parts: Any, optimizers: Any, batches: Any, found: Measured) -> None:
    """Note the times of steps without exchange, which all ranks take at once. Their weights differ afterwards."""
    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    for part, optimizer in zip(parts, optimizers, strict=True):
        optimizer.build(part.variables)
    own = {id(part): optimizer for part, optimizer in zip(parts, optimizers, strict=True)}

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return updated(parts, lambda part, gradients: own[id(part)].apply(gradients, part.variables), x, y)

    alone = Measured()
    timed(task, lambda i: step(*batches[i % BATCHES]), alone)
    found.compute_s = [took_s for of_rank in hvd.allgather_object(alone.step_s) for took_s in of_rank]
