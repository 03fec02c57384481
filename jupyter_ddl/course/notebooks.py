"""Finds the course's notebooks, and copies them.

Runs on: a terminal.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

# A wheel has them beside this module, a checkout at its top.
_FOLDERS = (Path(__file__).parent / "notebooks", Path(__file__).parents[2] / "notebooks")


@dataclass(frozen=True)
class Copy:
    """What became of one notebook.

    Attributes:
        path: where the reader has it.
        state: "copied"; "same", where the folder had it already; "kept", where it had another one, which stays.
    """

    path: Path
    state: Literal["copied", "same", "kept"]


def course_notebooks() -> list[Path]:
    """Return the notebooks of the course, in their order.

    Raises:
        InvalidInput: this installation has none.
    """
    for folder in _FOLDERS:
        if found := sorted(folder.glob("[0-9][0-9]-*.ipynb")):
            return found
    raise InvalidInput(
        "The notebooks of the course are a part of jupyter_ddl.",
        f"an installation without {_FOLDERS[0]}",
        "Install it again: pip install --force-reinstall --no-deps jupyter_ddl",
    )


def copy_notebooks(folder: Path) -> Iterator[Copy]:
    """Copy the notebooks into a folder, which is made where it is not there; a file that is there stays as it is.

    Raises:
        InvalidInput: the folder is a file; it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for notebook in course_notebooks():
            yield _copy(notebook, folder / notebook.name)
    except OSError as error:
        raise InvalidInput(
            "The notebooks must be copied into a folder that you may write to.",
            f"{folder} ({error.strerror})",
            "Pass another folder.",
        ) from error


def _copy(notebook: Path, target: Path) -> Copy:
    try:
        # What another process wrote since is not overwritten either.
        with target.open("xb") as file, notebook.open("rb") as source:
            shutil.copyfileobj(source, file)
    except FileExistsError:
        is_same = target.read_bytes() == notebook.read_bytes()
        return Copy(target, "same" if is_same else "kept")
    return Copy(target, "copied")
