"""`jupyter ddl runs`: lists the runs of this user, names, annotates and tags them, or deletes old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.commands import runs

if TYPE_CHECKING:
    import argparse

NAME = "runs"
HELP = "List what was run, name and tag it, or delete old runs."
EXAMPLES = (
    ("runs -n 5", "the five newest"),
    ("runs --rename a3f1 'larger batch'", "name one"),
    ("runs --prune --keep-days 30", "say which are older than 30 days; --yes deletes them"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    runs.add_runs_options(parser)


def main(arguments: argparse.Namespace) -> int:
    """List, label or delete; return the exit status."""
    runs.list_runs(arguments)
    return 0
