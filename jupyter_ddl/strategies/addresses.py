"""Finds addresses for the processes of tf.distribute: a worker on each rank, more on rank 0, on ports that are free.

Runs on: every rank. Collective: every rank must call this, in the same order.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.host.held_ports import HeldPorts

_LOOPBACK = "127.0.0.1"


def of_ranks(ports: HeldPorts, *more_on_rank_0: str) -> dict[str, list[str]]:
    """Return the addresses of all processes, by TensorFlow's names of jobs.

    Args:
        ports: holds those of this rank: TensorFlow listens there later.
        more_on_rank_0: other jobs with one process each, as "ps" and "chief".

    Example:
        >>> of_ranks(ports, "ps")
        {'worker': ['127.0.0.1:38211', '127.0.0.1:40113'], 'ps': ['127.0.0.1:37409']}
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    names = ["worker", *(more_on_rank_0 if world.rank == 0 else ())]
    host = _own_address(world)
    every: list[dict[str, str]] = world.allgather({name: f"{host}:{ports.add()}" for name in names})
    return {
        "worker": [of_rank["worker"] for of_rank in every],
        **{name: [every[0][name]] for name in more_on_rank_0},
    }


def _own_address(world: Any) -> str:
    """Return where other ranks reach this one: the loopback where all are on this host."""
    if len(set(world.allgather(socket.gethostname()))) == 1:
        return _LOOPBACK
    # A rank's start has found an address of rank 0 that all hosts reach. What is connected to it sends nothing yet.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
        towards.connect((os.environ["MASTER_ADDR"], 1))
        address: str = towards.getsockname()[0]
    return address
