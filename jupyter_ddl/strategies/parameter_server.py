"""Brings up ParameterServerStrategy on the ranks: a worker on each, and on rank 0 the parameters and the coordinator.

TensorFlow's servers cannot be stopped: they live until their rank ends, and later cells use them again.

Runs on: every rank. Collective: every rank must enter and leave `parameter_server`.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.held_ports import HeldPorts
from jupyter_ddl.strategies import addresses
from jupyter_ddl.strategies.one_cluster import enter
from jupyter_ddl.strategies.waiting import Departures, until_all_are_here

if TYPE_CHECKING:
    from collections.abc import Iterator

_MORE_THREADS = 2
_PARAMETERS, _COORDINATOR, _WORKER = "ps", "chief", "worker"


@contextmanager
def parameter_server() -> Iterator[Any]:
    """Give rank 0 a ParameterServerStrategy, and other ranks None; they serve until rank 0 leaves the block.

    Raises:
        InvalidInput: these ranks have got a TF_CONFIG of `set_tf_config`.

    Example:
        >>> with strategies.parameter_server() as strategy:
        ...     if strategy is not None:
        ...         coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    """
    import tensorflow as tf
    from mpi4py import MPI

    enter("parameter_server")
    cluster, departures, _ = _serving()
    departures.enter()
    if MPI.COMM_WORLD.rank:
        yield None
        departures.wait()
        return
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster, task_type=_COORDINATOR, task_id=0, rpc_layer="grpc"
    )
    try:
        yield tf.distribute.ParameterServerStrategy(resolver)
    finally:
        departures.leave()


@functools.cache
def _serving() -> tuple[Any, Departures, HeldPorts]:
    """Start this rank's servers, once.

    Returns:
        The cluster's specification; what says when rank 0 has left; and its ports, of which the coordinator takes its
        own with the first strategy.
    """
    import tensorflow as tf
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    # What a worker computes holds a thread while it waits for the parameters' server, which may be in the same process.
    # Source: the parameter server tutorial of tensorflow.org, create_in_process_cluster.
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=MPI.COMM_WORLD.size + _MORE_THREADS)
    ports = HeldPorts()
    cluster = tf.train.ClusterSpec(addresses.of_ranks(ports, _PARAMETERS, _COORDINATOR))
    for job in (_WORKER, *((_PARAMETERS,) if rank == 0 else ())):
        index = rank if job == _WORKER else 0
        tf.distribute.Server(cluster, job_name=job, task_index=index, protocol="grpc", config=config)
    # No coordinator connects to a server that does not listen yet.
    until_all_are_here()
    return cluster, Departures(), ports
