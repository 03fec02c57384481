"""Knows the cells of a debugger by two files each: as JupyterLab names it, and as this rank compiles it.

JupyterLab names a cell by a hash of its whole text, the magic's line included; the rank's compiler by a hash of what it
runs, where the magic's line is an empty one (`NotebookLines.placed`). Lines have the same numbers in both.

Source: ipykernel 7.4, compiler.py (get_file_name), debugger.py (dumpCell); jupyterlab 4.6, debugger/src/config.ts

Runs on: every rank.
"""

from __future__ import annotations

import linecache
import os
import stat
from contextlib import suppress
from pathlib import Path

from ipykernel.compiler import get_file_name, get_tmp_directory

_MAGIC = "%%distributed"
_MAX_CHARACTERS = 1 << 20


class CellSources:
    """The cells that a page has named."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._compiled: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._written: set[Path] = set()

    @property
    def prefix(self) -> str:
        """What the names of cells' files begin with."""
        return f"{get_tmp_directory()}{os.sep}"

    def add(self, code: str) -> str:
        """Note a cell of the notebook; return its file's name for JupyterLab.

        Raises:
            OSError: the file by which pydevd knows it cannot be written, or the folder is another user's.
        """
        placed = as_run(code[:_MAX_CHARACTERS])
        shown, compiled = str(get_file_name(code)), str(get_file_name(placed))
        self._texts[shown] = code
        self._compiled[shown], self._shown[compiled] = compiled, shown
        # pydevd takes no breakpoint in a file that is not there.
        self._write(Path(compiled), placed)
        return shown

    def compiled(self, shown: str) -> str:
        """Return the file's name that code of a cell has on this rank; of another file its own."""
        return self._compiled.get(shown, shown)

    def shown(self, compiled: str) -> str:
        """Return the file's name that JupyterLab has for what is compiled under a name."""
        return self._shown.get(compiled, compiled)

    def text(self, shown: str) -> str | None:
        """Return the text of a file; None where there is none."""
        return self._texts.get(shown) or "".join(linecache.getlines(shown)) or None

    def remove(self) -> None:
        """Remove the files."""
        for path in self._written:
            path.unlink(missing_ok=True)
        self._written.clear()
        with suppress(OSError):
            # Not empty where IPython's own debugger has files there.
            Path(self.prefix).rmdir()

    def _write(self, path: Path, text: str) -> None:
        folder = path.parent
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PermissionError(f"The folder {folder} must be this user's alone. Received: another's. Remove it.")
        path.write_text(text, encoding="utf-8")
        self._written.add(path)


def as_run(code: str) -> str:
    r"""Return what a rank runs of a cell: its lines where the notebook has them, and no magic.

    >>> as_run("%%distributed -r 1\na = 1")
    '\na = 1\n'
    >>> as_run("a = 1")
    'a = 1\n'
    """
    # IPython ends a cell's last line before it looks for magics.
    code = code if code.endswith("\n") else code + "\n"
    below = code.lstrip()
    if not below.startswith(_MAGIC):
        return code
    above = code[: len(code) - len(below)].count("\n") + 1
    return "\n" * above + below.partition("\n")[2]
