"""Knows when the ranks will be ended as idle, for a panel and `%ddl status`. The lease ends them, and not the kernel.

Other kernels may use the ranks too: their lock, and the time that they note, are looked at once a second.

Runs on: kernel.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.use_lock import is_used, last_use_s, note_use
from jupyter_ddl.host.threads import Supervised

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.protocol.idle_stop import IdleStop

_LOOK_S = 1.0
# Less says nothing new to who looks on.
_CHANGE_S = 0.5


class IdleCount:
    """The count of one cluster's ranks.

    Args:
        cluster: the cluster.
        idle_stop: when its ranks are ended.
        changed: called, in a thread of ours, when the end has changed by what another kernel does.

    Attributes:
        idle_stop: when its ranks are ended.
    """

    def __init__(self, cluster: Cluster, idle_stop: IdleStop, changed: Callable[[], None]) -> None:
        self.idle_stop = idle_stop
        self._use = cluster.use
        self._folder = cluster.folder.path
        self._changed = changed
        self._closed = threading.Event()
        self._used_s = 0.0
        self._is_used = False

    @property
    def ends_at_s(self) -> float | None:
        """When the ranks are ended, in seconds since the epoch; None while they are used."""
        used_s = max(self._used_s, self._use.noted_s)
        return None if self._use.is_held or self._is_used or not used_s else used_s + self.idle_stop.after_s

    def begin(self) -> None:
        """Look from now on, once a second."""
        Supervised(self._watch, "jupyter_ddl idle count", lambda _: None).start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def restart(self) -> None:
        """Count from now on.

        Raises:
            OSError: that cannot be noted.
        """
        note_use(self._folder)
        self.look()

    def look(self) -> None:
        """Look once at what other kernels do."""
        before = self.ends_at_s
        self._used_s = last_use_s(self._folder)
        self._is_used = not self._use.is_held and is_used(self._folder)
        after = self.ends_at_s
        if (before is None) != (after is None) or (before and after and abs(after - before) > _CHANGE_S):
            self._changed()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_S):
            self.look()


def idle_count_of(cluster: Cluster, changed: Callable[[], None]) -> IdleCount | None:
    """Return the count of a cluster's ranks, which is looked at from here on; None where they are not ended as idle."""
    if cluster.spec.idle_stop is None:
        return None
    found = IdleCount(cluster, cluster.spec.idle_stop, changed)
    found.begin()
    return found
