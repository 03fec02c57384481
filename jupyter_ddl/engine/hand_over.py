"""Takes what the lease hands over to the ranks of several hosts: the controller's address and its keys.

They come by mpiexec's standard input, which reaches rank 0 wherever it is, and by a broadcast: not by the command line
or the environment, which others can see, nor by a file, which the hosts may not share.

Runs on: every rank.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_ddl.engine.world import World

# One line of JSON: some 2 KB.
_MOST_BYTES = 1 << 16
_POLL_S = 0.02


def handed_over(world: World) -> str:
    """Return the line that the lease hands over, once the controller has started.

    Runs on: every rank. Collective: every rank must call this, once.
    """
    line = bytearray(_MOST_BYTES)
    if world.rank == 0:
        line[:] = _read_line(sys.stdin.fileno()).ljust(_MOST_BYTES)
    # A broadcast that blocks would keep a core busy, which the background imports need.
    request = world.communicator.Ibcast(line)
    while not request.Test():
        time.sleep(_POLL_S)
    text = line.decode().strip()
    if not text:
        sys.exit(f"Rank {world.rank} on {world.host}: the lease ended before it said where the controller is.")
    return text


def _read_line(descriptor: int) -> bytes:
    """Return the first line that comes on a descriptor; what came where it ends before, or is too long."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _MOST_BYTES:
        # No more than a line is ever sent.
        read = os.read(descriptor, _MOST_BYTES - len(line))
        if not read:
            return b""
        line += read
    return line
