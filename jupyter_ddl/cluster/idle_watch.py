"""Decides when ranks have not been used for so long that they are ended, as `--idle-stop` or the site's profile says.

It looks at what every kernel that uses the ranks leaves: the lock `use.lock`, its time, and the record of each run. So
it needs no kernel: the lease does it, with a notebook closed, or a kernel that is busy with other work.

Runs on: the lease; `head_link` in its place, where no folder is shared with the lease's host.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.ending_notes import log_ending
from jupyter_ddl.cluster.use_lock import kept_from_use, last_use_s, note_use
from jupyter_ddl.host import run_module
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.number_texts import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.protocol.idle_stop import IdleStop

TICK_S = 1.0
# The machine slept, or its clock was set: the user had no chance to see the time pass.
_GAP_S = 60.0
# Records are read at most so often while they alone say that ranks are used; and for so long, on a slow file system.
_AGAIN_S = 60.0
_READ_S = 20.0


class IdleWatch:
    """Watches the use of one cluster's ranks, for one thread at a time.

    Args:
        folder: the cluster's.
        idle_stop: when its ranks are ended.
        now_s: returns the time, in seconds since the epoch.

    Example:
        >>> watch = IdleWatch(folder, IdleStop(1800.0, "--idle-stop 30m"))
        >>> watch.due()
    """

    def __init__(self, folder: ClusterFolder, idle_stop: IdleStop, now_s: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._idle_stop = idle_stop
        self._now_s = now_s
        self._looked_s = now_s()
        self._again_s = 0.0
        self._kept = ExitStack()

    @classmethod
    def of(cls, folder: ClusterFolder) -> IdleWatch | None:
        """Return what watches a cluster's ranks; None where they are not ended as idle."""
        idle_stop = folder.spec().idle_stop
        return None if idle_stop is None else cls(folder, idle_stop)

    def restart(self) -> None:
        """Count from now on."""
        try:
            note_use(self._folder.path)
        except OSError:
            # The disk is full, or the folder is being removed: it is tried at the next gap.
            return

    def due(self) -> Fault | None:
        """Return how the ranks end, where that is now; then no run begins on them while this process lives.

        To be called every `TICK_S`.
        """
        now_s, looked_s = self._now_s(), self._looked_s
        self._looked_s = now_s
        if abs(now_s - looked_s) > _GAP_S:
            self.restart()
            return None
        if self._idle_s() < self._idle_stop.after_s or now_s < self._again_s:
            return None
        with ExitStack() as kept:
            is_free = kept.enter_context(kept_from_use(self._folder.path))
            if not is_free:
                return None
            # The lock's time once more: it was held, or the user wants the ranks, until just now.
            idle_s = min(self._idle_by_records_s(), self._idle_s())
            if idle_s < self._idle_stop.after_s:
                self._again_s = now_s + min(_AGAIN_S, self._idle_stop.after_s)
                return None
            self._kept = kept.pop_all()
        self._log(idle_s)
        return Fault("stopped", "idle", at_s=now_s, facts=Facts(by=self._idle_stop.by, seconds=round(idle_s, 1)))

    def _idle_s(self) -> float:
        used_s = last_use_s(self._folder.path)
        # Where that cannot be read it is not known.
        return self._now_s() - used_s if used_s else 0.0

    def _idle_by_records_s(self) -> float:
        """Return how long ago the last run ended, by its record.

        They also know of a run where there are no locks, and of one that continues though its kernel is gone.
        """
        world_id = str(self._folder.settings().get("world_id"))
        command = run_module.command("jupyter_ddl.oversight.last_run", world_id)
        try:
            # What it says otherwise is for the lease's log.
            said = subprocess.check_output(command, stdin=subprocess.DEVNULL, timeout=_READ_S)
            known = json.loads(said)
        except (OSError, subprocess.SubprocessError, ValueError):
            # What is not known to be idle stays.
            return 0.0
        return 0.0 if known["is_running"] else self._now_s() - known["last_s"]

    def _log(self, idle_s: float) -> None:
        spec = self._folder.spec()
        log_ending(f"{spec.name} ({counted(spec.n, 'rank')})", self._idle_stop.by, idle_s)
