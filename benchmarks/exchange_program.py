"""The exchange alone: 100 MB of gradients averaged over the ranks, on our way or with mpi4py.

Run by training.py as `python -m benchmarks.exchange_program WAY ANSWER` on MPI ranks. Rank 0 writes how many megabytes
of gradients a second each rank has averaged.

Runs on: every rank. Collective: every rank must run it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# As the gradients of training_models.as_large_as_resnet50: 80 layers' kernels and biases.
SHAPES = [(784, 560), (560,), *[(560, 560), (560,)] * 78, (560, 10), (10,)]
BYTES = 4 * sum(rows * (columns[0] if columns else 1) for rows, *columns in SHAPES)
WARM_UP, TIMED = 3, 20


def ours() -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """Return the exchange of DistributedOptimizer, a barrier, and this rank's number."""
    import keras
    import tensorflow as tf

    import jupyter_ddl.keras as hvd

    class Nothing(keras.optimizers.Optimizer):  # type: ignore[misc]
        """An optimizer that leaves the variables as they are, so that the exchange is all there is."""

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
            """Take the gradients."""
            self.taken = grads

    hvd.init()
    variables = [keras.Variable(tf.fill(shape, 1.0 + hvd.rank())) for shape in SHAPES]
    optimizer = hvd.DistributedOptimizer(Nothing(0.0))

    @tf.function  # type: ignore[untyped-decorator]
    def exchange() -> Any:
        optimizer.apply([variable.value for variable in variables], variables)
        return optimizer.taken

    average = (1 + hvd.size()) / 2
    assert all((gradient.numpy() == average).all() for gradient in exchange()), "not averaged"
    return exchange, lambda: hvd.allreduce(0.0), hvd.rank()


def mpi4py() -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """Return MPI's allreduce of one buffer and its division, a barrier, and this rank's number."""
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    mine = np.full(BYTES // 4, 1.0 + world.rank, "float32")
    everyone = np.empty_like(mine)

    def exchange() -> None:
        world.Allreduce(mine, everyone)

    exchange()
    assert (everyone == sum(range(1, world.size + 1))).all(), "not summed"
    return exchange, world.Barrier, world.rank


def main() -> None:
    """Time one way."""
    way, answer = sys.argv[1:]
    exchange, barrier, rank = {"ours": ours, "mpi4py": mpi4py}[way]()
    for _ in range(WARM_UP):
        exchange()
    barrier()
    began_s = time.perf_counter()
    for _ in range(TIMED):
        exchange()
    barrier()
    seconds = time.perf_counter() - began_s
    if rank == 0:
        Path(answer).write_text(json.dumps({"exchange": BYTES * TIMED / 1e6 / seconds}))


if __name__ == "__main__":
    main()
