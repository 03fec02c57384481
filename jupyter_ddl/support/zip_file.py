"""Shows what the file for support holds, and writes it.

Runs on: the terminal's process, Jupyter server.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jupyter_ddl.support.contents import Part

_REMEDY = "Name another one with -o FILE."


def listing(parts: Sequence[Part]) -> str:
    """Return a table of the parts: name, bytes, what it is."""
    names = max(len(part.name) for part in parts)
    sizes = max(len(f"{len(part.content):,}") for part in parts)
    return "\n".join(f"{part.name:<{names}}  {len(part.content):>{sizes},} bytes  {part.note}" for part in parts)


def zipped(parts: Sequence[Part]) -> bytes:
    """Return a zip file of the parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for part in parts:
            made.writestr(part.name, part.content)
    return file.getvalue()


def check(file: Path) -> None:
    """Check that a report can be written there, before the machine is looked at, which may take a minute.

    Raises:
        InvalidInput: something is there already, or its folder is not there, or cannot be written to.
    """
    if os.path.lexists(file):
        raise InvalidInput("A report is a new file.", f"{file}, which is there", _REMEDY)
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise _unwritable(file, error) from error


def write(file: Path, parts: Sequence[Part]) -> None:
    """Write the parts into a zip file that only this user can read.

    Raises:
        InvalidInput: something is there already, or it cannot be written.
    """
    check(file)
    try:
        files.replace(file, zipped(parts))
    except OSError as error:
        raise _unwritable(file, error) from error


def _unwritable(file: Path, error: OSError) -> InvalidInput:
    return InvalidInput("A report must be written whole.", f"{file}: {error.strerror}", _REMEDY)
