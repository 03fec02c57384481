"""Ends this rank's process when it can no longer serve as a rank, so that the session learns of it and does not wait.

Python's own exit runs what a cell registered and then MPI_Finalize, which waits for all other ranks: a rank that ended
alone stayed in it, and all others waited for that rank.

Runs on: every rank.
"""

from __future__ import annotations

import os
from os import _exit as exit_at_once
from os import getpid, write
from typing import NoReturn


class Leaving:
    """Ends one rank's process.

    Made before any cell runs, with all that it calls: a cell may replace any name.

    Attributes:
        log: a descriptor of mpiexec's output, which is kept in the cluster's folder.
    """

    def __init__(self) -> None:
        self.log = os.dup(2)
        self._pid = getpid()

    @property
    def is_child(self) -> bool:
        """Whether this process is a fork of the rank that a cell made."""
        return getpid() != self._pid

    def __call__(self, status: int, why: str = "") -> NoReturn:
        """End this process with a status, a rank's with one of `rank_exits`; the reason goes to the cluster's log."""
        try:
            write(self.log, b"jupyter_ddl: this rank ends: " + why.encode("utf-8", "backslashreplace") + b"\n")
        finally:
            # The process must end even if the line cannot be written.
            exit_at_once(status)
