"""Waits for other ranks in steps that an interrupt ends: a rank that waits in MPI itself spins, and cannot be released.

Runs on: every rank. Collective: every rank must make the same calls, in the same order.
"""

from __future__ import annotations

import time
from typing import Any

_LOOK_S = 0.01
_FIRST_TAG = 20_000


def until_all_are_here() -> None:
    """Wait for all ranks. Other threads run meanwhile, as those of a TensorFlow server do."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD.Dup()
    barrier = world.Ibarrier()
    while not barrier.Test():
        time.sleep(_LOOK_S)
    world.Free()


class Departures:
    """Rank 0 says when it has left a block, also by an exception, and other ranks wait for that.

    Each block has a number of its own: where an interrupt ends a wait, what rank 0 says then is for no later one.
    """

    def __init__(self) -> None:
        self._number = 0
        self._sent: list[Any] = []

    def enter(self) -> None:
        """Note that a block begins."""
        self._number += 1

    def leave(self) -> None:
        """Say on rank 0 that it has left."""
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        self._sent = [world.isend(None, rank, _FIRST_TAG + self._number) for rank in range(1, world.size)]

    def wait(self) -> None:
        """Wait on another rank until rank 0 has left."""
        from mpi4py import MPI

        world, tag = MPI.COMM_WORLD, _FIRST_TAG + self._number
        while not world.Iprobe(0, tag):
            time.sleep(_LOOK_S)
        world.recv(source=0, tag=tag)
