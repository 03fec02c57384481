"""`jupyter ddl jobs`: lists the batch jobs that bring ranks, or ends one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

NAME = "jobs"
HELP = "List the batch jobs that bring ranks, or end one."
EXAMPLES = (
    ("jobs", "yours, of each scheduler that is here"),
    ("jobs --cancel 4711", "end one"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("--cancel", metavar="JOB", help="end this job, or take it from the queue")


def main(arguments: argparse.Namespace) -> int:
    """List, or end one; return the exit status."""
    from jupyter_ddl.cluster import job_list

    if arguments.cancel:
        print(f"{job_list.cancel(arguments.cancel)} is being ended")
    else:
        print(job_list.table())
    return 0
