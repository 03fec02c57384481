"""Watches the lease of a cluster on another host, where its PID says nothing.

It lives while it holds the lock of its folder, and the folder is its world's; a batch job that has ended has none. How
it ended, the scheduler says first: what ends a job ends the lease with it, which then knows only of a signal.

Runs on: kernel.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jupyter_ddl.cluster.ending_notes import noted_ending
from jupyter_ddl.cluster.job_folder import JobFolder
from jupyter_ddl.cluster.jobs_known import job_of
from jupyter_ddl.errors import DdlError
from jupyter_ddl.host.clock import MONOTONIC
from jupyter_ddl.protocol.faults import Facts, Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.host.clock import Clock
    from jupyter_ddl.launch.schedulers.scheduler import Scheduler

T = TypeVar("T")
# A read of a network file system fails now and then: it counts when it does so twice.
_MISSES = 2
# A host that lost its power may leave its lock behind.
_ASK_SCHEDULER_S = 30.0
# What a job's own program ends with: the folder knows more.
_OF_ITS_PROGRAM = ("FAILED", "COMPLETED")
REQUEUED, PREEMPTED = "REQUEUED", "PREEMPTED AND REQUEUED"
"""Of a job that waits in the queue once more: why is not known, or another job took its nodes."""
# Slurm keeps no reason of it, and writes one below what the job printed. Source: slurmstepd of 22.05.
_BY_ANOTHER = "DUE TO PREEMPTION ***"
# Its program may print one line more.
_LAST_LINES = 2


class RemoteLease:
    """The lease of one world of ranks on another host.

    Args:
        folder: the cluster's.
        world_id: which world.
        scheduler: of the job that the ranks are in; None without one.
        job: as the scheduler names it.
        clock: by which the scheduler is asked.
    """

    def __init__(
        self,
        folder: ClusterFolder,
        world_id: str,
        scheduler: Scheduler | None = None,
        job: str | None = None,
        clock: Clock = MONOTONIC,
    ) -> None:
        self._folder = folder
        self._world_id = world_id
        self._scheduler = scheduler if job is not None else None
        self._job = job or ""
        # Read now: the folder of ranks that have ended may be removed.
        served = folder.spec().served if self._scheduler is not None else None
        self._job_folder = None if served is None else JobFolder(Path(served.folder))
        self._clock = clock
        self._misses = 0
        self._asked_s = clock.now_s()

    def has_ended(self) -> bool:
        """Return whether it has. To be called once a second."""
        if self._lives():
            self._misses = 0
            return self._job_has_ended()
        self._misses += 1
        return self._misses >= _MISSES

    def ending(self) -> Fault:
        """Return how it ended. Takes some seconds where a scheduler still ends the job."""
        noted = None if self._job_folder is None else noted_ending(self._job_folder.path)
        if noted is not None:
            return noted
        recorded = self._folder.ending_of_world(self._world_id)
        outcome = self._outcome()
        if outcome is not None and (recorded is None or outcome not in _OF_ITS_PROGRAM):
            assert self._scheduler is not None
            facts = Facts(by=f"{self._scheduler.title} job {self._job}", outcome=outcome)
            return Fault("lost", "job", at_s=time.time(), facts=facts)
        if recorded is not None:
            return recorded
        if self._folder.settings().get("world_id") == self._world_id:
            return Fault("lost", "lease", at_s=time.time())
        # A stopped one's folder is removed.
        return Fault("stopped", "user", at_s=time.time())

    def _lives(self) -> bool:
        return self._folder.settings().get("world_id") == self._world_id and self._folder.runs()

    def _job_has_ended(self) -> bool:
        now_s = self._clock.now_s()
        if self._scheduler is None or now_s - self._asked_s < _ASK_SCHEDULER_S:
            return False
        self._asked_s = now_s
        return self._asked(lambda scheduler: _is_over(scheduler, self._job)) or False

    def _outcome(self) -> str | None:
        """Return the scheduler's word for the job's end; None where it runs on, ended well, or there is none."""
        return self._asked(lambda scheduler: scheduler.end_of(self._job) or self._requeued(scheduler))

    def _requeued(self, scheduler: Scheduler) -> str | None:
        found = scheduler.job(self._job)
        if found is None or found.state != "waiting":
            return None
        said = "" if self._job_folder is None else self._job_folder.last_words()
        return PREEMPTED if any(_BY_ANOTHER in line for line in said.splitlines()[-_LAST_LINES:]) else REQUEUED

    def _asked(self, what: Callable[[Scheduler], T]) -> T | None:
        if self._scheduler is None:
            return None
        try:
            return what(self._scheduler)
        except DdlError:
            # It does not answer at the moment.
            return None


def job_is_over(spec: ClusterSpec) -> bool:
    """Return whether the scheduler says that the job of a cluster's ranks has ended; False where it says nothing."""
    scheduler, job = job_of(spec)
    try:
        return scheduler is not None and job is not None and _is_over(scheduler, job)
    except DdlError:
        return False


def _is_over(scheduler: Scheduler, job: str) -> bool:
    found = scheduler.job(job)
    return found is not None and found.state in ("ended", "waiting")
