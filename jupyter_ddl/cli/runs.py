"""`jupyter ddl runs`: lists the runs of this user, or deletes old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl import run_commands

if TYPE_CHECKING:
    import argparse

NAME = "runs"
HELP = "List what was run, or delete old runs."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    run_commands.add_runs_options(parser)


def main(arguments: argparse.Namespace) -> int:
    """List or delete; return the exit status."""
    run_commands.list_runs(arguments)
    return 0
