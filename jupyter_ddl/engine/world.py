"""This rank's place in the MPI world.

Runs on: every rank.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class World:
    """This rank's place in the MPI world.

    Attributes:
        communicator: a duplicate of MPI.COMM_WORLD for our own use, so that no message of the user's meets ours.
    """

    rank: int
    world_size: int
    local_rank: int
    local_size: int
    host: str
    pid: int
    communicator: Any

    @classmethod
    def join(cls) -> World:
        """Initialise MPI, with threads, and find this rank's place.

        Runs on: every rank. Collective: every rank must call this, once.
        """
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        # Asked of MPI and not of OMPI_* or PMI_* variables: right under every MPI and every launcher.
        node = world.Split_type(MPI.COMM_TYPE_SHARED)
        place = cls(
            rank=world.rank,
            world_size=world.size,
            local_rank=node.rank,
            local_size=node.size,
            host=socket.gethostname(),
            pid=os.getpid(),
            communicator=world.Dup(),
        )
        node.Free()
        return place
