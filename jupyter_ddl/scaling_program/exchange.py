"""Measures how long ranks take to reduce so many bytes, and how long the shortest message takes.

Runs on: every rank. Collective: every rank must call this.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

_TIMES = 5
# Of less, the time is that of the messages, and says nothing of the bandwidth.
_LARGEST_BYTES = 16 * 2**20
_ROUND_TRIPS = 200
# A buffer is filled from several tensors, as gradients are, and copied for it.
_TENSORS = 4


class Exchange:
    """Allreduces of 4 KiB up to 16 MiB or the gradients' bytes, a few of each size at a time.

    Args:
        gradient_bytes: of all gradients, which is one of the sizes.
    """

    def __init__(self, gradient_bytes: int) -> None:
        import horovod.tensorflow as hvd
        import tensorflow as tf

        def reduced(size_bytes: int) -> Any:
            return tf.function(lambda tensors: hvd.grouped_allreduce(tensors, op=hvd.Sum, name=f"scaling.{size_bytes}"))

        largest_bytes = max(gradient_bytes, _LARGEST_BYTES)
        sizes_bytes = {gradient_bytes, *(min(2**power, largest_bytes) for power in range(12, 34, 2))}
        numbers = sorted({max(1, size_bytes // 4 // _TENSORS) for size_bytes in sizes_bytes})
        self._tensors = {4 * _TENSORS * n: [tf.zeros([n]) for _ in range(_TENSORS)] for n in numbers}
        # Operations of a graph, as those of a training step are.
        self._reduced = {size_bytes: reduced(size_bytes) for size_bytes in self._tensors}
        self._took_s: dict[int, list[float]] = {size_bytes: [] for size_bytes in self._tensors}

    def take(self) -> None:
        """Reduce some of each size, and note their seconds."""
        for size_bytes, tensors in self._tensors.items():
            for i in range(_TIMES):
                began_s = time.perf_counter()
                self._reduced[size_bytes](tensors)[0].numpy()
                # TensorFlow makes the graph at the first one, and Horovod agrees on it in another way.
                if i or self._took_s[size_bytes]:
                    self._took_s[size_bytes].append(time.perf_counter() - began_s)

    def medians(self) -> list[tuple[int, float]]:
        """Return (bytes, seconds) by size."""
        return [(size_bytes, statistics.median(took_s)) for size_bytes, took_s in self._took_s.items()]


def latency_s() -> float:
    """Return half of the fastest round trip of 4 bytes between the first rank and the last."""
    import numpy as np
    from mpi4py import MPI

    world, message = MPI.COMM_WORLD, np.zeros(1, "float32")
    last = world.size - 1
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
    return float(world.bcast(min(took_s)) / 2)
