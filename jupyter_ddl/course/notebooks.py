"""Finds the course's notebooks, and copies them with the documentation's pages.

Runs on: a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.course.pages import course_pages, notebook_for_readers, page_for_readers
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

# A wheel has them beside this module, a checkout at its top.
_FOLDERS = (Path(__file__).parent / "notebooks", Path(__file__).parents[2] / "notebooks")
_PAGES = "docs"


@dataclass(frozen=True)
class Copy:
    """What became of one notebook, of a page that the reader has another one of, or of all other pages together.

    Attributes:
        path: where the reader has it; of the pages, their folder.
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
    """Copy the notebooks into a folder, and the pages that they link into its folder `docs`.

    Folders are made where they are not there; a file that is there stays as it is.

    Raises:
        InvalidInput: a folder is a file; it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        notebooks = course_notebooks()
        for notebook in notebooks:
            yield _write(folder / notebook.name, notebook_for_readers(notebook.read_bytes()))
        yield from _copy_pages(folder / _PAGES, {notebook.name for notebook in notebooks})
    except OSError as error:
        raise InvalidInput(
            "The notebooks must be copied into a folder that you may write to.",
            f"{error.filename or folder} ({error.strerror})",
            "Pass another folder.",
        ) from error


def _copy_pages(folder: Path, notebooks: set[str]) -> Iterator[Copy]:
    states = set()
    for name, source in course_pages().items():
        target, content = folder / name, source.read_bytes()
        if source.suffix == ".md":
            content = page_for_readers(content.decode(), notebooks).encode()
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = _write(target, content)
        states.add(copy.state)
        if copy.state == "kept":
            yield copy
    yield Copy(folder, "copied" if "copied" in states else "same")


def _write(target: Path, content: bytes) -> Copy:
    try:
        # What another process wrote since is not overwritten either.
        with target.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return Copy(target, "same" if target.read_bytes() == content else "kept")
    return Copy(target, "copied")
