"""Has a rank wait, with all imported and nothing begun, until the lease of its world takes over.

Runs on: every rank of a standby world, in the main thread.
"""

from __future__ import annotations

import os
import socket

from jupyter_ddl.protocol.standby import GO, READY


def wait_at(path: str) -> None:
    """Say that this rank is ready, and wait until it is wanted; end the process where it never is.

    The wait takes no time of a core.

    Args:
        path: the socket of `cluster/standby_lease.py`.
    """
    with socket.socket(socket.AF_UNIX) as gate:
        try:
            gate.connect(path)
            gate.sendall(READY)
            wanted = gate.recv(len(GO)) == GO
        except OSError:
            wanted = False
    if not wanted:
        # Python's exit would wait in MPI_Finalize for the others.
        os._exit(0)
