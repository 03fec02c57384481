"""Finds, in a thread, a host of a script's ranks that stays away, as the kernel does for a cell.

Runs on: the terminal's process.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.lost_hosts import lost_host
from jupyter_ddl.host.lost_after import host_lost_after_s
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.launch.remote_processes import RemoteProcesses
from jupyter_ddl.protocol.faults import Facts, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jupyter_ddl.launch.place import Place
    from jupyter_ddl.protocol.rank_life import RankReady

_TICK_S = 1.0


class HostWatch:
    """The hosts of one script.

    Args:
        place: where the ranks are.
        hosts: each host's own name -> the name with which it was given.
        ready: rank -> its RankReady, of those that are there.

    Attributes:
        lost: the loss of a host, or of the thread that looks; None while there is none.
    """

    def __init__(self, place: Place, hosts: Mapping[str, str], ready: Mapping[int, RankReady]) -> None:
        self.lost: Fault | None = None
        self._ready = ready
        self._after_s = host_lost_after_s()
        self._closed = threading.Event()
        self._processes = RemoteProcesses(place, hosts, self._pids_on, self._closed)

    @contextmanager
    def watching(self, quiet: Callable[[], Mapping[int, float]]) -> Iterator[None]:
        """Look once a second, for the length of the block.

        Args:
            quiet: returns for how long nothing has come from each rank that has not ended.
        """
        thread = Supervised(lambda: self._watch(quiet), "jupyter_ddl host watch", self._on_unwatched)
        thread.start()
        try:
            yield
        finally:
            self._closed.set()
            thread.join()

    def _watch(self, quiet: Callable[[], Mapping[int, float]]) -> None:
        while self.lost is None and not self._closed.wait(_TICK_S):
            ready = dict(self._ready)
            silent = {rank: seconds for rank, seconds in quiet().items() if rank in ready}
            self.lost = lost_host(silent, ready, self._processes, self._after_s)

    def _on_unwatched(self, error: BaseException) -> None:
        # A host that stays away would not be noticed any more, and the script would wait for ever.
        self.lost = Fault("lost", "host watch", at_s=time.time(), facts=Facts(error=described(error)))

    def _pids_on(self, host: str) -> list[int]:
        return [one.pid for one in dict(self._ready).values() if one.host == host]
