"""Runs `%ddl submit` and `%ddl jobs`.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster import job_list, submission
from jupyter_ddl.cluster.submission import wanted_of
from jupyter_ddl.cluster.submit_options import given_of
from jupyter_ddl.errors import NoCluster
from jupyter_ddl.kernel import current
from jupyter_ddl.views.progress import Progress
from jupyter_ddl.views.table import status_table

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def submit(arguments: Namespace) -> None:
    """Send a job, wait for its ranks, and show them; or print its script."""
    wanted = wanted_of(
        arguments.profile,
        given_of(arguments),
        name=arguments.name,
        keep=arguments.keep,
        rebuild=arguments.rebuild != "never",
        idle_stop=arguments.idle_stop,
    )
    if arguments.print_script:
        print(submission.script(wanted), end="")
        return
    progress = Progress()
    session = current.submitted(wanted, progress)
    progress.conclude(f"{session.note}\n{status_table(session.ranks)}")


def add_jobs_options(parser: ArgumentParser) -> None:
    """Add the options of `%ddl jobs`."""
    parser.add_argument("--cancel", metavar="JOB", help="end this job, or take it from the queue")


def jobs(arguments: Namespace) -> None:
    """List the jobs that bring ranks, or end one."""
    if arguments.cancel:
        print(f"{job_list.cancel(arguments.cancel)} is being ended")
    else:
        print(job_list.table(_is_attached))


def _is_attached(job: str) -> bool:
    try:
        session = current.current()
    except NoCluster:
        return False
    return session.job == job
