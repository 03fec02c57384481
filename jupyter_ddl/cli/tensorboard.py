"""`jupyter ddl tensorboard --export`: writes a run's scalars for TensorBoard."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.commands.runs import add_run

if TYPE_CHECKING:
    import argparse

NAME = "tensorboard"
HELP = "Write a run's scalars to a folder that TensorBoard shows. In a notebook %ddl tensorboard shows a run."
EXAMPLES = (("tensorboard --export a3f1 logs", "write a run's scalars to a folder"),)
_INTERVAL_S = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    # A terminal has no page to show: what is done is said, and `%ddl tensorboard` is what shows.
    parser.add_argument("--export", action="store_true", required=True, help="write the scalars of RUN to DIR")
    add_run(parser)
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="where (default: tensorboard/RUN here)")
    parser.add_argument("-f", "--follow", action="store_true", help="continue until the run is over")


def main(arguments: argparse.Namespace) -> int:
    """Write them, and say how they are shown; return the exit status."""
    from jupyter_ddl.runs.store import resolve
    from jupyter_ddl.tensorboard.run_scalars import exported

    record = resolve(arguments.run)
    folder = arguments.folder or Path("tensorboard") / record.run
    scalars = exported(record.path, folder)
    while arguments.follow and not scalars.is_over:
        time.sleep(_INTERVAL_S)
        scalars.write_all()
    print(f"Written: {folder}. To show it: %ddl tensorboard {folder}, or tensorboard --logdir {folder}")
    return 0
