"""From nothing to the first allreduce on two ranks: `%ddl start -n 2`, against ipyparallel's own MPI cluster by hand.

Both sides do the same work: start a controller and two MPI engines, import TensorFlow and Horovod on them, initialise
Horovod and sum a tensor over the ranks. Ending the cluster is not timed.
"""

from __future__ import annotations

import logging
import os
import time

import jupyter_ddl
from benchmarks.harness import Row, interleave, report
from jupyter_ddl.host import mpi

FIRST_ALLREDUCE = """
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
assert float(hvd.allreduce(tf.ones(1), op=hvd.Sum)[0]) == hvd.size() == 2
"""


def ours() -> float:
    """Return seconds with jupyter_ddl."""
    began_s = time.perf_counter()
    with jupyter_ddl.start(n=2, name=f"bench-{os.getpid()}") as session:
        session.run(FIRST_ALLREDUCE)
        return time.perf_counter() - began_s


def by_hand() -> float:
    """Return seconds with ipyparallel's Cluster and a view."""
    import ipyparallel

    began_s = time.perf_counter()
    cluster = ipyparallel.Cluster(n=2, engines="mpi", log_level=logging.ERROR)
    client = cluster.start_and_connect_sync()
    client[:].execute(FIRST_ALLREDUCE, block=True)
    seconds = time.perf_counter() - began_s
    client.close()
    cluster.stop_cluster_sync()
    return seconds


def main() -> None:
    """Run the benchmark."""
    # By hand a user has to set these first (root, more ranks than cores, mpiexec on PATH): both sides have them.
    os.environ.update(mpi.launch_environment(mpi.find_mpi()))
    sides = interleave(ours, by_hand)
    report("start", [Row("n=2", *sides, "s")], aim=0.7, better="lower")


if __name__ == "__main__":
    main()
