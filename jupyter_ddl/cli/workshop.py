"""`jupyter ddl workshop [FOLDER]`: the course's notebooks, in a folder of one's own and in JupyterLab."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from jupyter_ddl.commands.parsers import options_in
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from jupyter_ddl.course.class_size import SiteLimits

NAME = "workshop"
HELP = "Copy the course's notebooks, name packages that they lack here, look at this machine, and open JupyterLab."
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
        default="",
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
    """Do so; return 1 where the server does not carry the class, or its profile allows less than the notebooks take."""
    if arguments.learners is not None:
        if arguments.folder is not None:
            raise InvalidInput(
                "--class copies no notebooks.",
                f"--class {arguments.learners} {arguments.folder}",
                "Leave one of both out.",
            )
        return _check_class(arguments.learners)
    folder = arguments.folder or _FOLDER
    lab_options = options_in("--lab-options", arguments.lab_options)
    from jupyter_ddl.course.notebooks import copy_notebooks
    from jupyter_ddl.course.packages import missing_text

    if not arguments.no_lab and importlib.util.find_spec("jupyterlab") is None:
        raise InvalidInput(
            "Opening the notebooks takes JupyterLab.",
            "an environment without it",
            "Run: pip install 'jupyter_ddl[lab]', or add --no-lab.",
        )
    copies = list(copy_notebooks(folder))
    for copy in copies:
        print(f"{copy.path}: {_SAYS[copy.state]}")
    if (missing := missing_text([copy.path for copy in copies if copy.path.suffix == ".ipynb"])) is not None:
        print(f"\n{missing}")
    if not arguments.no_lab:
        _open_lab(folder, lab_options)
    return 0


def _open_lab(folder: Path, options: list[str]) -> NoReturn:
    """Print what doctor finds, and become JupyterLab: an interrupt is for it."""
    from jupyter_ddl.doctor import print_report

    print()
    print_report()
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", str(folder), *options])  # noqa: S606


def _check_class(learners: int) -> int:
    from jupyter_ddl.course.class_server import this_server
    from jupyter_ddl.course.class_size import class_text

    server, limits = this_server(), _site_limits()
    print(class_text(server, learners, limits))
    return 0 if server.carries(learners) and (limits is None or limits.suffices) else 1


def _site_limits() -> SiteLimits | None:
    """Return what a start on this host is allowed that names no profile; None for no limits."""
    from jupyter_ddl.course.class_size import SiteLimits
    from jupyter_ddl.launch.place import HERE
    from jupyter_ddl.launch.profiles.profile import DEFAULT
    from jupyter_ddl.launch.profiles.reading import all_profiles
    from jupyter_ddl.launch.profiles.site_limits import allowed_at

    allowed = allowed_at(all_profiles().get(DEFAULT), HERE)
    if allowed is None:
        return None
    by = f"the profile {DEFAULT}"
    return SiteLimits(by, allowed.ranks, allowed.clusters, allowed.memory, allowed.allotment)


def _learners(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"a class has 1 learner or more, not {text}")
    return int(text)
