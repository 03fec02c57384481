"""`jupyter ddl install-ddlrun`: writes IBM's command `ddlrun`, which runs `jupyter ddl run` with the same options.

Its file is the alias: `ddlrun -H a,b python train.py`, and `ddlrun python train.py` in a job of LSF's, as scripts and
batch files for WML CE have them.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files

if TYPE_CHECKING:
    import argparse

NAME = "install-ddlrun"
HELP = "Write the command `ddlrun` of IBM's DDL, which then runs `jupyter ddl run`."
EXAMPLES = (("install-ddlrun ~/bin", "then `ddlrun -H nodea,nodeb python train.py` works as IBM's did"),)
_FILE = "ddlrun"
_MARK = "# Written by: jupyter ddl install-ddlrun"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument(
        "folder", type=Path, nargs="?", metavar="DIR", help="where to (default: beside this environment's python)"
    )


def main(arguments: argparse.Namespace) -> int:
    """Write the file; return the exit status.

    Raises:
        InvalidInput: there is no such folder, or another `ddlrun` is in it.
    """
    folder: Path = arguments.folder or Path(sysconfig.get_path("scripts"))
    if not folder.is_dir():
        raise InvalidInput("ddlrun goes into a folder that is there.", str(folder), f"Make it: mkdir -p {folder}")
    file = folder / _FILE
    if file.exists() and _MARK not in file.read_text(errors="replace"):
        raise InvalidInput(
            "Another program's ddlrun is left alone.", str(file), "Name another folder: jupyter ddl install-ddlrun DIR"
        )
    # Programs look for the variable to learn whether ddlrun has started them.
    command = f'{shlex.quote(sys.executable)} -m jupyter_ddl.cli run --env "DDL_OPTIONS=$DDL_OPTIONS"'
    # Not in the first line, which may not be as long as a path.
    try:
        files.replace(file, f'#!/bin/sh\n{_MARK}\nexec {command} "$@"\n', mode=0o755)
    except OSError as error:
        raise InvalidInput(
            "ddlrun goes into a folder that you may write to.", f"{folder} ({error.strerror})", "Name another folder."
        ) from error
    on_path = any(Path(one) == folder.absolute() for one in os.environ.get("PATH", "").split(os.pathsep))
    print(f"{file} runs jupyter ddl run." + ("" if on_path else f" Its folder is not on PATH: {folder.absolute()}"))
    return 0
