"""`jupyter ddl logs`: prints all that a run's ranks wrote, also while they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.commands import logs

if TYPE_CHECKING:
    import argparse

NAME = "logs"
HELP = "Print all that a run's ranks wrote."
EXAMPLES = (
    ("logs", "of the newest run"),
    ("logs -f -r 0", "what rank 0 writes, as it does"),
    ("logs 2026-11-27T09 --stderr --tail 20", "the last lines of a run that began at that time"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    logs.add_logs_options(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="continue as they grow, until the run is over")


def main(arguments: argparse.Namespace) -> int:
    """Print them; return the exit status."""
    if arguments.follow:
        logs.follow_logs(arguments)
    else:
        logs.print_logs(arguments, in_notebook=False)
    return 0
