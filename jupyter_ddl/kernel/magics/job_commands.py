"""Runs `%ddl submit` and `%ddl jobs`.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster import job_list, submission
from jupyter_ddl.cluster.submission import wanted_of
from jupyter_ddl.errors import NoCluster
from jupyter_ddl.kernel import current
from jupyter_ddl.views.progress import Progress
from jupyter_ddl.views.table import status_table

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

# The options whose names are fields of `Wanted`.
_OF_THE_JOB = (
    "nodes",
    "ntasks_per_node",
    "time",
    "partition",
    "account",
    "gpus_per_node",
    "cpus_per_task",
    "container",
)


def add_submit_options(parser: ArgumentParser) -> None:
    """Add the options of `%ddl submit`."""
    parser.add_argument("-N", "--nodes", type=int, help="how many nodes (default: 1)")
    parser.add_argument("--ntasks-per-node", type=int, metavar="N", help="ranks on each (default: 1)")
    parser.add_argument("--time", metavar="H:MM", help="the job's wall time (default: the queue's)")
    parser.add_argument("-p", "--partition", "--queue", help="the partition or queue (default: the site's)")
    parser.add_argument("--account", help="what is charged")
    parser.add_argument("--gpus-per-node", type=int, metavar="N")
    parser.add_argument("--cpus-per-task", type=int, metavar="N", help="cores for each rank")
    parser.add_argument("--name", help="the cluster's name (default: default)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="'--X=Y'", help="any option of the scheduler's"
    )
    parser.add_argument("--profile", metavar="NAME", help="a place of the site's or yours: %%ddl profiles lists them")
    parser.add_argument("--container", metavar="IMAGE", help="run the ranks in this image of Apptainer's")
    parser.add_argument("--keep", action="store_true", help="let the job outlive this kernel")
    parser.add_argument("--rebuild", choices=("auto", "never"), default="auto", help="replace lost ranks in the job")
    parser.add_argument(
        "--print", action="store_true", dest="print_script", help="print the job's script, and send nothing"
    )


def submit(arguments: Namespace) -> None:
    """Send a job, wait for its ranks, and show them; or print its script."""
    wanted = wanted_of(
        arguments.profile,
        {field: getattr(arguments, field) for field in _OF_THE_JOB} | {"options": tuple(arguments.option)},
        name=arguments.name,
        keep=arguments.keep,
        rebuild=arguments.rebuild != "never",
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
