"""Submits a batch job that brings the ranks, waits until they are there, and ends it.

Runs on: kernel.
"""

from __future__ import annotations

import atexit
import itertools
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster import finding
from jupyter_ddl.cluster.job_folder import JobFolder, JobOrder, own_host
from jupyter_ddl.cluster.jobs_known import scheduler_named
from jupyter_ddl.cluster.lifecycle import Cluster, start_cancelled
from jupyter_ddl.cluster.spec import ClusterSpec, Served
from jupyter_ddl.errors import ClusterError, ClusterStartFailed, DdlError
from jupyter_ddl.host import run_module
from jupyter_ddl.host.threads import Supervised
from jupyter_ddl.views.job_texts import ended_text, unshared_text, waiting_text

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from jupyter_ddl.launch.schedulers.scheduler import JobRequest, Scheduler

_BEAT_S = 10.0
# The scheduler of a busy site answers slowly: it is asked this often, and the shared folder more often.
_ASK_S = 2.0
_LOOK_S = 0.25
# A job of which the scheduler does not know, once it was submitted: its databases are not updated at once.
_UNKNOWN_S = 60.0


@dataclass(frozen=True)
class BatchJob:
    """One job, as a kernel sees it.

    Attributes:
        folder: what was submitted.
        scheduler: which took it.
        id: as the scheduler names it.
    """

    folder: JobFolder
    scheduler: Scheduler
    id: str

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"{self.scheduler.title} job {self.id}"

    def spec(self) -> ClusterSpec:
        """Return what is known of its cluster before it runs."""
        order = self.folder.order()
        served = Served(order.scheduler, self.id, str(self.folder.path), order.host, order.rebuild)
        note = f"{self.title}: {order.n} ranks."
        return ClusterSpec(
            order.name, order.n, (), None, {}, keep=order.keep, oversubscribe=False, note=note, served=served
        )

    def cancel(self) -> None:
        """Have the scheduler end it, wherever it is in its queue; one that has ended stays so.

        Raises:
            ClusterError: the scheduler refuses.
        """
        self.folder.let_go()
        try:
            self.scheduler.cancel(self.id)
        except ClusterError:
            found = self.scheduler.job(self.id)
            if found is not None and found.state not in ("ending", "ended"):
                raise


class JobRanks:
    """Waits for the ranks of a job: first ones, and new ones in place of lost ones.

    Args:
        job: which.
    """

    def __init__(self, job: BatchJob) -> None:
        self._job = job
        self._world_id = ""

    def launch(self, spec: ClusterSpec, step: Callable[[str], None], given_up: threading.Event) -> Cluster:  # noqa: ARG002
        """Wait until the job's program has started ranks, and connect to them: a `Launch`.

        Args:
            spec: ignored: the job's program has its own.
            step: called with a sentence at each step.
            given_up: set, by another thread, to wait no more.

        Raises:
            ClusterStartFailed: the job has ended, or it was cancelled.
        """
        asks_s, began_s = 0.0, time.monotonic()
        while (found := finding.of_job(self._job.id, not_world=self._world_id)) is None:
            if given_up.is_set():
                # By a restart, for which the job is needed, or by a stop, which ends it.
                raise start_cancelled()
            if time.monotonic() >= asks_s:
                self._ask(step, is_new=time.monotonic() - began_s < _UNKNOWN_S)
                asks_s = time.monotonic() + _ASK_S
            given_up.wait(_LOOK_S)
        cluster = Cluster(found, None)
        step(f"{self._job.title} runs: connecting to its ranks")
        try:
            cluster.connect(progress=step, given_up=given_up)
        except BaseException:
            cluster.close()
            raise
        self._world_id = cluster.world_id
        return cluster

    def _ask(self, step: Callable[[str], None], *, is_new: bool) -> None:
        found = self._job.scheduler.job(self._job.id)
        if found is None and is_new:
            return
        if found is None or found.state in ("ending", "ended"):
            title, reason, folder = self._job.title, "" if found is None else found.reason, self._job.folder
            # The scheduler opens the file of what a job prints before the job begins.
            if found is not None and found.nodes and not folder.output.exists():
                raise ClusterStartFailed(unshared_text(title, reason, folder.path, paths.RUNTIME_VARIABLE))
            raise ClusterStartFailed(ended_text(title, reason, folder.last_words()))
        step(waiting_text(self._job.title, found.state, found.reason, found.ahead, found.starts_at_s, found.nodes))


def submit(order: JobOrder, request: Callable[[JobFolder], JobRequest], scheduler: Scheduler) -> BatchJob:
    """Submit a job, and tie it to this kernel's life unless its order says to keep it.

    Args:
        order: what its program starts.
        request: returns what is asked of the scheduler, for the job's folder.
        scheduler: takes it.

    Raises:
        ClusterError: the scheduler refuses it, in its own words.
    """
    folder = JobFolder.create(order)
    try:
        if not order.keep:
            folder.hold()
        folder.beat(0)
        job = BatchJob(folder, scheduler, scheduler.submit(script(request(folder), folder, scheduler)))
        folder.write_id(job.id)
    except BaseException:
        folder.remove()
        raise
    if not order.keep:
        _tie(job)
    return job


def script(request: JobRequest, folder: JobFolder, scheduler: Scheduler) -> str:
    """Return the script of a job that brings ranks."""
    return scheduler.script(request, command(folder))


def command(folder: JobFolder) -> Sequence[str]:
    """Return the command that a job runs on its first node."""
    return run_module.command("jupyter_ddl.cli", "serve", str(folder.path))


def known(job: str) -> BatchJob | None:
    """Return a job that was submitted from any notebook of this user's; None where none has that number."""
    from jupyter_ddl.cluster.job_folder import submitted

    for folder in submitted():
        if folder.id() == job and (found := scheduler_named(folder.order().scheduler)) is not None:
            return BatchJob(folder, found, job)
    return None


def runs_dir() -> str:
    """Return the folder of the runs, as a job's program is to use it."""
    return str(paths.runs_dir())


def order_of(name: str, n: int, scheduler: Scheduler, *, keep: bool, rebuild: bool) -> JobOrder:
    """Return an order with what is known of this kernel."""
    return JobOrder(name, n, scheduler.kind, keep, rebuild, own_host(), runs_dir())


def _tie(job: BatchJob) -> None:
    """Show that this kernel lives, in a thread, and cancel the job when it ends."""
    own_pid = os.getpid()

    def beat() -> None:
        for number in itertools.count(1):
            time.sleep(_BEAT_S)
            if not job.folder.path.exists() or job.folder.kernel()[1] is None:
                return
            with suppress(OSError):
                # The disk is full: the lock shows it too.
                job.folder.beat(number)

    def at_exit() -> None:
        with suppress(DdlError):
            # Not in a process that the kernel forked.
            if os.getpid() == own_pid and job.folder.kernel()[1] is not None:
                job.cancel()

    Supervised(beat, f"jupyter_ddl job {job.id}", lambda _: None).start()
    atexit.register(at_exit)
