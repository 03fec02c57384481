"""Makes TF_CONFIG for MultiWorkerMirroredStrategy, with a worker on each rank.

Runs on: every rank. Collective: every rank must call this.
"""

from __future__ import annotations

import functools
import json
import os

from jupyter_ddl.host.held_ports import HeldPorts
from jupyter_ddl.strategies import addresses
from jupyter_ddl.strategies.one_cluster import enter

_VARIABLE = "TF_CONFIG"


def set_tf_config() -> dict[str, list[str]]:
    """Set TF_CONFIG on each rank and return the addresses in it.

    The strategy that follows must be made before TensorFlow has computed anything in this process: in the first cell of
    fresh ranks, or of a script.

    Raises:
        InvalidInput: these ranks have served `parameter_server`.

    Example:
        >>> strategies.set_tf_config()
        >>> strategy = tf.distribute.MultiWorkerMirroredStrategy()
    """
    from mpi4py import MPI

    enter("set_tf_config")
    cluster, _ = _cluster()
    task = {"type": "worker", "index": MPI.COMM_WORLD.rank}
    os.environ[_VARIABLE] = json.dumps({"cluster": cluster, "task": task})
    return cluster


@functools.cache
def _cluster() -> tuple[dict[str, list[str]], HeldPorts]:
    """Return the addresses and this rank's port, once: a process is in one cluster of TensorFlow's for all its life."""
    ports = HeldPorts()
    return addresses.of_ranks(ports), ports
