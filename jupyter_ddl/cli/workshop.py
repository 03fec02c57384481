"""`jupyter ddl workshop [FOLDER]`: the course's notebooks, in a folder of one's own and in JupyterLab."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import NoReturn

from jupyter_ddl.errors import InvalidInput

NAME = "workshop"
HELP = "Copy the course's notebooks, look at this machine, and open JupyterLab."
EXAMPLES = (
    ("workshop", "copy the course, look at this machine, open JupyterLab"),
    ("workshop --class 30", "what each of 30 gets here"),
)
_FOLDER = Path("jupyter-ddl-course")
_SAYS = {"copied": "copied", "same": "there already", "kept": "kept: yours is another one"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("folder", nargs="?", type=Path, help=f"where to (default: {_FOLDER})")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--no-lab", action="store_true", help="copy only")
    alone.add_argument(
        "--lab-options",
        metavar="OPTIONS",
        type=shlex.split,
        default=[],
        help="options of JupyterLab's, as one argument: --lab-options='--port 9999 --no-browser'",
    )
    alone.add_argument(
        "--class",
        type=_learners,
        metavar="N",
        dest="learners",
        help="copy nothing: say what each of N learners gets of this server, and whether that suffices",
    )


def main(arguments: argparse.Namespace) -> int:
    """Do so; return 1 where the server does not carry the class."""
    if arguments.learners is not None:
        if arguments.folder is not None:
            raise InvalidInput(
                "--class copies no notebooks.",
                f"--class {arguments.learners} {arguments.folder}",
                "Leave one of both out.",
            )
        return _check_class(arguments.learners)
    folder = arguments.folder or _FOLDER
    from jupyter_ddl.course.notebooks import copy_notebooks

    if not arguments.no_lab and importlib.util.find_spec("jupyterlab") is None:
        raise InvalidInput(
            "Opening the notebooks takes JupyterLab.",
            "an environment without it",
            "Run: pip install 'jupyter_ddl[lab]', or add --no-lab.",
        )
    for copy in copy_notebooks(folder):
        print(f"{copy.path}: {_SAYS[copy.state]}")
    if not arguments.no_lab:
        _open_lab(folder, arguments.lab_options)
    return 0


def _open_lab(folder: Path, options: list[str]) -> NoReturn:
    """Print what doctor finds, and become JupyterLab: an interrupt is for it."""
    from jupyter_ddl.doctor import print_report

    print()
    print_report()
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", str(folder), *options])  # noqa: S606


def _check_class(learners: int) -> int:
    from jupyter_ddl.course.class_size import class_text, this_server

    server = this_server()
    print(class_text(server, learners))
    return 0 if server.carries(learners) else 1


def _learners(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"a class has 1 learner or more, not {text}")
    return int(text)
