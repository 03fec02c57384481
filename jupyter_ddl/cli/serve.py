"""`jupyter ddl serve FOLDER`: the program of a batch job that brings ranks, as `%ddl submit` sends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

NAME = "serve"
HELP = "Start ranks in this batch job, for notebooks elsewhere: what %ddl submit sends."
EXAMPLES = (("serve a3f1-default", "what the job script of %ddl submit does"),)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("folder", help="of the job, among those of %%ddl submit")


def main(arguments: argparse.Namespace) -> int:
    """Start them, and hold them until the job ends; return the exit status."""
    from jupyter_ddl.cluster.serving import serve

    serve(Path(arguments.folder))
    return 0
