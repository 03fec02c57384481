"""Finds the notebook that a program without a page executes: nbconvert, papermill, `jupyter execute`, a user's script.

No such program says to the kernel which notebook it is. Its command line names the file, though, and of several files
it is the one that has the cell that is being executed.

Runs on: kernel.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

_SUFFIX = ".ipynb"


def notebooks_with(cell: str) -> list[dict[str, Any]]:
    """Return the notebooks that have a cell, of those that the nearest program above this process names.

    Args:
        cell: its code, as the program sent it.
    """
    import psutil

    # Processes may end meanwhile, or be another user's: then nothing is known of them.
    with suppress(psutil.Error):
        for program in psutil.Process().parents():
            with suppress(psutil.Error):
                found = [notebook for notebook in _named_by(program) if cell in _code_cells(notebook)]
                if found:
                    return found
    return []


def _named_by(program: psutil.Process) -> Iterator[dict[str, Any]]:
    folder = Path(program.cwd())
    # nbconvert takes a notebook's name without its end, too.
    names = {word if word.endswith(_SUFFIX) else word + _SUFFIX for word in program.cmdline()[1:]}
    for name in sorted(names):
        # No file, no text or no notebook.
        with suppress(OSError, ValueError):
            notebook = json.loads((folder / name).read_text(encoding="utf-8"))
            if isinstance(notebook, dict):
                yield notebook


def _code_cells(notebook: dict[str, Any]) -> Iterator[str]:
    cells = notebook.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source")
            yield "".join(map(str, source)) if isinstance(source, list) else str(source)
