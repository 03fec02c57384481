"""Knows when the batch job that the ranks are in is over, and decides when to warn of it.

The scheduler says it: the signals that sites send before differ. A job's time may be changed while it runs, so it is
asked again.

Runs on: kernel.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.jobs_known import job_of
from jupyter_ddl.errors import DdlError
from jupyter_ddl.host.threads import Supervised
from jupyter_ddl.views.wall_time import warning_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.launch.schedulers.scheduler import Scheduler

_ASK_S = 60.0
WARNS_S = (600.0, 120.0)
"""So long before its end a running cell is warned."""


class WallTime:
    """The end of one job, as its scheduler says it.

    Args:
        scheduler: which.
        job: as it names it.
        changed: called, in a thread of ours, when the end is known or has changed.
        now_s: returns the time, in seconds since the epoch.

    Attributes:
        title: of the job, e.g. "Slurm job 12".
        ends_at_s: when it is over, in seconds since the epoch; None while that is not known.
    """

    def __init__(
        self, scheduler: Scheduler, job: str, changed: Callable[[], None], now_s: Callable[[], float] = time.time
    ) -> None:
        self.title = f"{scheduler.title} job {job}"
        self.ends_at_s: float | None = None
        self._scheduler = scheduler
        self._job = job
        self._changed = changed
        self._now_s = now_s
        self._closed = threading.Event()

    def begin(self) -> None:
        """Ask the scheduler from now on, once a minute."""
        Supervised(self._watch, f"jupyter_ddl wall time of job {self._job}", lambda _: None).start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def left_s(self) -> float | None:
        """Return how long the job has; None where that is not known."""
        return None if self.ends_at_s is None else self.ends_at_s - self._now_s()

    def ask(self) -> None:
        """Ask the scheduler once; what it does not say stays as it was."""
        try:
            found = self._scheduler.job(self._job)
        except DdlError:
            # It does not answer at the moment.
            return
        if found is not None and found.ends_at_s is not None and found.ends_at_s != self.ends_at_s:
            self.ends_at_s = found.ends_at_s
            self._changed()

    def _watch(self) -> None:
        while not self._closed.is_set():
            self.ask()
            self._closed.wait(_ASK_S)


def wall_time_of(spec: ClusterSpec, changed: Callable[[], None]) -> WallTime | None:
    """Return the end of the job that a cluster's ranks are in, which is asked for from here on; None without a job."""
    scheduler, job = job_of(spec)
    if scheduler is None or job is None:
        return None
    found = WallTime(scheduler, job, changed)
    found.begin()
    return found


class WallTimeWarnings:
    """Decides when one cell is warned: as each of `WARNS_S` passes, and at its begin where one has passed.

    Args:
        wall_time: of the job; None without one.
        checkpoint: returns the folder of the cell's checkpoints, None without any; called when a warning is due, since
            the cell's record is written while it runs already.
    """

    def __init__(self, wall_time: WallTime | None, checkpoint: Callable[[], str | None]) -> None:
        self._wall_time = wall_time
        self._checkpoint = checkpoint
        self._warned: float | None = None

    def due(self) -> str | None:
        """Return the warning that is due now, as one line; None where none is."""
        left_s = None if self._wall_time is None else self._wall_time.left_s()
        if self._wall_time is None or left_s is None:
            return None
        passed = min((mark for mark in WARNS_S if left_s <= mark), default=None)
        is_new = passed is not None and (self._warned is None or passed < self._warned)
        # A job that gets more time is warned of again.
        self._warned = passed
        return warning_text(self._wall_time.title, left_s, self._checkpoint()) if is_new else None
