"""`jupyter ddl execute FOLDER`: runs an exported notebook; the job's script has this line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

NAME = "execute"
HELP = "Run an exported notebook on this job's ranks: what `jupyter ddl export` writes into its script."
EXAMPLES = (("execute 01-from-one-gpu-to-all-slurm", "what the job script of that export does"),)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("folder", type=Path, help="that `jupyter ddl export` made")
    parser.add_argument("--point", type=int, metavar="K", help="of its sweep (default: the job's number in its array)")
    parser.add_argument("--hostfile", metavar="FILE", help="the hosts of the ranks (default: those of this job)")


def main(arguments: argparse.Namespace) -> int:
    """Run it; return the exit status: 0, 1 where a cell failed, and 128 plus the number of a signal that ended it."""
    from jupyter_ddl.export.execution import execute
    from jupyter_ddl.export.order import ExportFolder
    from jupyter_ddl.export.scripts import point_of

    point = point_of(os.environ) if arguments.point is None else arguments.point
    return execute(ExportFolder(arguments.folder.absolute()), point, arguments.hostfile)
