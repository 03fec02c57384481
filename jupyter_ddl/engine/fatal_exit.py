"""Ends this rank's process where it can be a rank no longer, so that the session is told instead of left waiting.

Python's own end of a process runs what a cell registered and then MPI_Finalize, which waits for all other ranks: a rank
that ended alone stayed in it, and everybody waited for that rank.

Runs on: every rank.
"""

from __future__ import annotations

import os
from os import _exit as exit_at_once
from os import getpid, write
from typing import NoReturn


class Leaving:
    """The way out of one rank's process.

    Made before any cell runs, with all that it calls: a cell may replace any name.

    Attributes:
        log: a descriptor of mpiexec's output, which is kept in the cluster's folder.
    """

    def __init__(self) -> None:
        self.log = os.dup(2)
        self._pid = getpid()

    @property
    def is_child(self) -> bool:
        """Whether this process is one that a cell forked, and not the rank."""
        return getpid() != self._pid

    def __call__(self, status: int, why: str = "") -> NoReturn:
        """End this process with a status, a rank's with one of `rank_exits`; the reason goes to the cluster's log."""
        try:
            write(self.log, b"jupyter_ddl: this rank ends: " + why.encode("utf-8", "backslashreplace") + b"\n")
        finally:
            # Whatever stands in the way of a line, the process must end.
            exit_at_once(status)
