"""Trains on ranks that exchange gradients by Horovod: the explicit loop, one distributed optimizer for each part.

Runs on: every rank. Collective: every rank must call this.
"""

from __future__ import annotations

import time
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

    alone = _Alone(task, batches)
    reduced = exchange.Exchange(4 * found.parameters)

    def between(steps: int) -> None:
        alone.take(steps)
        reduced.take()

    timed(task, lambda i: step(*batches[i % BATCHES]), found, between)
    _require_in_sync(hvd, variables)
    found.losses = [float(loss) for loss in hvd.allreduce(tf.constant(found.losses, "float64"), op=hvd.Average)]
    found.compute_s = [took_s for of_rank in hvd.allgather_object(alone.step_s) for took_s in of_rank]
    found.exchange_s = reduced.medians()
    if hvd.size() > 1:
        found.latency_s = exchange.latency_s()
    return found if hvd.rank() == 0 else None


def _require_in_sync(hvd: Any, variables: list[Any]) -> None:
    """End the side unless all ranks hold the same weights: to exchange nothing at all would be the fastest."""
    every_rank = hvd.allgather_object([zlib.crc32(variable.numpy().tobytes()) for variable in variables])
    if any(of_rank != every_rank[0] for of_rank in every_rank):
        differ = [rank for rank, of_rank in enumerate(every_rank) if of_rank != every_rank[0]]
        text = f"The ranks of a benchmark must train one model. Received: other weights on ranks {differ} than on 0."
        raise RanksOutOfSync(text, differ, "")


class _Alone:
    """Steps without exchange, which all ranks take at the same time, of another model: theirs differ afterwards.

    Args:
        task: says what is trained.
        batches: of this rank.
    """

    def __init__(self, task: Task, batches: Any) -> None:
        import keras
        import tensorflow as tf

        parts = task.model.parts(keras, task.size)
        for part in parts:
            part.optimizer.build(part.variables)

        @tf.function
        def step(x: Any, y: Any) -> Any:
            return updated(parts, lambda part, gradients: part.optimizer.apply(gradients, part.variables), x, y)

        self._step, self._batches, self._taken = step, batches, 0
        self.step_s: list[float] = []
        for _ in range(task.warm_up):
            float(step(*batches[0]))

    def take(self, steps: int) -> None:
        """Take steps, and note their seconds."""
        for _ in range(steps):
            began_s = time.perf_counter()
            float(self._step(*self._batches[self._taken % BATCHES]))
            self.step_s.append(time.perf_counter() - began_s)
            self._taken += 1
