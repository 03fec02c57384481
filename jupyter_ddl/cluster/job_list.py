"""Lists the batch jobs of this user's that bring ranks, and removes what ended ones left.

Runs on: kernel, a terminal.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_ddl.cluster import batch_job, finding, registry
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.job_folder import submitted
from jupyter_ddl.cluster.jobs_known import scheduler_here, scheduler_named
from jupyter_ddl.errors import DdlError, NoCluster
from jupyter_ddl.paths import clusters_dir
from jupyter_ddl.views.jobs_table import JobRow, jobs_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.cluster.job_folder import JobFolder, JobOrder
    from jupyter_ddl.launch.schedulers.scheduler import Job


def waiting_or_running() -> list[tuple[JobOrder, Job]]:
    """Return the jobs that wait or run, each with what it starts; the folders stay as they are.

    Raises:
        HostUnfit: no scheduler's commands are on this machine.
        ClusterError: the scheduler does not answer.
    """
    # Some schedulers list a job for a while after its end.
    known = {job.id: job for job in scheduler_here().jobs() if job.state != "ended"}
    found = []
    for folder in submitted():
        job = known.get(folder.id() or "")
        if job is not None:
            with suppress(OSError, ValueError):  # another process removes the folder of a job that has just ended
                found.append((folder.order(), job))
    return found


def job_rows(is_attached: Callable[[str], bool]) -> list[JobRow]:
    """Return the jobs that wait or run; remove the folders of those that have ended.

    Args:
        is_attached: returns whether this kernel uses the ranks of a job.

    Raises:
        HostUnfit: no scheduler's commands are on this machine.
        ClusterError: the scheduler does not answer.
    """
    found = waiting_or_running()
    listed = {job.id for _, job in found}
    for folder in submitted():
        number = folder.id()
        if number is not None and number not in listed:
            _remove_if_ended(folder, number, folder.order().scheduler)
    return [
        JobRow(job.id, order.name, job.state, job.reason, job.nodes, job.ahead, job.ends_at_s, is_attached(job.id))
        for order, job in found
    ]


def table(is_attached: Callable[[str], bool] = lambda _: False) -> str:
    """Return the jobs that wait or run as aligned text; arguments and errors as of `job_rows`."""
    return jobs_table(job_rows(is_attached))


def cancel(number: str) -> str:
    """End one of these jobs; return its name for messages.

    Raises:
        NoCluster: none has that number.
        ClusterError: the scheduler refuses.
    """
    job = batch_job.known(number)
    if job is None:
        known = ", ".join(filter(None, (folder.id() for folder in submitted()))) or "none"
        raise NoCluster(
            f"A job to end must be one that %ddl submit sent. Received: {number!r}; known: {known}. "
            "%ddl jobs lists those that wait or run."
        )
    job.cancel()
    return job.title


def _remove_if_ended(folder: JobFolder, number: str, kind: str) -> None:
    scheduler = scheduler_named(kind)
    with suppress(DdlError):
        found = None if scheduler is None else scheduler.job(number)
        is_over = found is None or found.state == "ended"
        if scheduler is not None and is_over and finding.of_job(number) is None:
            for left in _left_by(number):
                left.remove()
            folder.remove()


def _left_by(number: str) -> Iterator[ClusterFolder]:
    """Yield the folders of the clusters of a job that has ended: it was killed before it could remove them."""
    for host in registry.names(clusters_dir()):
        for name in registry.names(clusters_dir() / host):
            folder = ClusterFolder(name, clusters_dir() / host)
            with suppress(ValueError):
                served = folder.spec().served
                if served is not None and served.job == number and not folder.runs():
                    yield folder
