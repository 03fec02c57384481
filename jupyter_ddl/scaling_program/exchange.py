"""Measures how long ranks take to reduce so many bytes, and how long the shortest message takes.

Runs on: every rank. Collective: every rank must call this.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_ddl.scaling_program.training import Measured

_TIMES = 15
_ROUND_TRIPS = 200
# A buffer is filled from several tensors, as gradients are, and copied for it.
_TENSORS = 4


def measure(found: Measured, largest_bytes: int) -> None:
    """Note the times of allreduces of 4 KiB up to the gradients' bytes, and MPI's latency."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    sizes_bytes = sorted({min(2**power, largest_bytes) for power in range(12, 34, 2)})

    @tf.function(reduce_retracing=True)
    def reduced(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        return list(hvd.grouped_allreduce(tensors, op=hvd.Sum))

    for size_bytes in sizes_bytes:
        numbers = max(1, size_bytes // 4 // _TENSORS)
        tensors = [tf.zeros([numbers]) for _ in range(_TENSORS)]
        took_s = []
        for i in range(_TIMES + 3):
            began_s = time.perf_counter()
            reduced(tensors)[0].numpy()
            if i >= 3:
                took_s.append(time.perf_counter() - began_s)
        found.exchange_s.append((numbers * 4 * _TENSORS, statistics.median(took_s)))
    found.latency_s = _latency_s()


def _latency_s() -> float | None:
    """Return half of a round trip of 4 bytes between the ranks that are farthest apart: the first and the last."""
    import numpy as np
    from mpi4py import MPI

    world, message = MPI.COMM_WORLD, np.zeros(1, "float32")
    last = world.size - 1
    if last == 0:
        return None
    took_s = []
    for _ in range(_ROUND_TRIPS):
        began_s = time.perf_counter()
        if world.rank == 0:
            world.Send(message, last)
            world.Recv(message, last)
        elif world.rank == last:
            world.Recv(message, 0)
            world.Send(message, 0)
        took_s.append(time.perf_counter() - began_s)
    return float(world.bcast(statistics.median(took_s)) / 2)
