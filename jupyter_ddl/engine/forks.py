"""Ends the children that a cell forks (a DataLoader's, a Pool's, of `os.fork`) with their rank.

Otherwise mpiexec, whose pipes they hold, would not report a rank that died.

Runs on: every rank, in each child that Python forks there.
"""

from __future__ import annotations

import os
import signal
from threading import get_ident, main_thread

from jupyter_ddl.host.process_tree import parent_death_signal


class Forks:
    """Ties the children of this process to it, from when it is made on.

    Attributes:
        ours: descriptors for this process alone. In a child they are redirected to nothing; their numbers stay taken,
            since their holders there may still write.
    """

    def __init__(self) -> None:
        self.ours: list[int] = []
        self._pid = os.getpid()
        self._main = main_thread().ident
        # Looked up here: a child of a process with threads may find the dynamic loader's lock held for ever.
        self._end_with_parent = parent_death_signal(signal.SIGKILL)
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        if os.getppid() == self._pid and get_ident() == self._main:
            # Not a child's child: where that is a daemon it outlives its parent. And not where another thread forked:
            # Linux takes the end of that thread for the end of the parent. Those end with the ranks, by the lease.
            self._end_with_parent()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in self.ours:
            os.dup2(nowhere, descriptor, inheritable=False)
        os.close(nowhere)
        # They are replaced now; a child's child has them so.
        self.ours = []
