"""`jupyter ddl show`: shows a run's output again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.commands import runs

if TYPE_CHECKING:
    import argparse

NAME = "show"
HELP = "Show a run's output again."
EXAMPLES = (
    ("show", "the newest run's output"),
    ("show a3f1", "of the run whose id ends so"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    runs.add_run(parser)


def main(arguments: argparse.Namespace) -> int:
    """Show it; return the exit status."""
    runs.show_run(arguments, in_notebook=False)
    return 0
