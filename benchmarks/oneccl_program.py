"""Allreduces of one tensor of 1, 25 and 100 MB, through what this Horovod exchanges by.

Run by oneccl.py as `jupyter ddl run oneccl_program.py LIBRARY ANSWER`. Rank 0 writes the seconds of one allreduce, by
the tensor's megabytes, after each rank has seen that the sums are right.

Runs on: every rank. Collective: every rank must run it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

# How often, by the tensor's megabytes: each size takes about a second.
TIMES = {1: 400, 25: 40, 100: 10}
WARM_UP = 5
# What a process has mapped, of either way to exchange between ranks.
LIBRARIES = {"ccl": "/libccl.so", "mpi": "/libmpi.so"}


def seconds(megabytes: int) -> float:
    """Return how long one sum of a tensor over the ranks takes, in seconds.

    Args:
        megabytes: of the tensor, whose elements are of four bytes.
    """
    tensor = tf.fill([megabytes * 1_000_000 // 4], 1.0 + hvd.rank())

    @tf.function  # type: ignore[untyped-decorator]
    def exchange() -> tf.Tensor:
        return hvd.allreduce(tensor, op=hvd.Sum, name=f"of_{megabytes}")

    for _ in range(WARM_UP):
        summed = exchange()
    assert bool(tf.reduce_all(summed == hvd.size() * (hvd.size() + 1) / 2)), f"{megabytes} MB are not summed"
    hvd.allreduce(tf.zeros([1]), name="barrier")
    began_s = time.perf_counter()
    for _ in range(TIMES[megabytes]):
        exchange()
    hvd.allreduce(tf.zeros([1]), name="barrier")
    return (time.perf_counter() - began_s) / TIMES[megabytes]


def main() -> None:
    """Time each size."""
    library, answer = sys.argv[1:]
    hvd.init()
    figures = {megabytes: seconds(megabytes) for megabytes in TIMES}
    assert hvd.ccl_built() == (library == "ccl"), f"Horovod is not built with {library}"
    assert LIBRARIES[library] in Path("/proc/self/maps").read_text(), f"{library} is not loaded"
    if hvd.rank() == 0:
        Path(answer).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
