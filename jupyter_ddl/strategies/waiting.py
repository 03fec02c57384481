"""Waits until rank 0 has ended its part, in steps that an interrupt ends.

Runs on: every rank. Collective: every rank must call this.
"""

from __future__ import annotations

import time

_LOOK_S = 0.01


def until_all_are_here() -> None:
    """Wait for all ranks. Other threads run meanwhile, as those of a TensorFlow server do."""
    from mpi4py import MPI

    # A communicator of its own: where an interrupt ends the wait on one rank, no later collective meets this one.
    world = MPI.COMM_WORLD.Dup()
    barrier = world.Ibarrier()
    # A rank that waits in MPI itself spins, with a core that its server needs.
    while not barrier.Test():
        time.sleep(_LOOK_S)
    world.Free()
