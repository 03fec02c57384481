"""Finds the checkpoints that `--checkpoint DIR` saved, and the newest whole one.

    DIR/fit-1/epoch-3.npz      the state after epoch 3 of the cell's first fit, epochs counted from 1
    DIR/fit-1/epoch-4.npz      the last two of each fit are kept
    DIR/fit-2/epoch-1.npz      the cell's second fit
    DIR/fit-1/.epoch-5.npz.3f9c61d2.new being written: it gets its name when all of it is on the disk

A file is a zip archive, which carries a checksum of each of its members: that tells a whole one from one that was cut
off or damaged. `checkpoints/` writes it, and defines its content.

Runs on: kernel and every rank. Imports no TensorFlow.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

_FIT = re.compile(r"fit-([0-9]{1,9})")
_EPOCH = re.compile(r"epoch-([0-9]{1,9})\.npz")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's file; `is_whole` says whether it is whole.

    Attributes:
        path: the file.
        fit: the fit's number in its cell, from 1.
        epoch: the epoch after which it was saved, from 1.
    """

    path: Path
    fit: int
    epoch: int


def newest(folder: str | os.PathLike[str], fit: int | None = None) -> Checkpoint | None:
    """Return the newest whole checkpoint: the last epoch of the last fit that has one; None where there is none.

    Reads the file that it returns, and each damaged one that is newer, once.

    Args:
        folder: what `--checkpoint` was given.
        fit: of this fit only.
    """
    return next((found for found in newest_first(Path(folder), fit) if is_whole(found.path)), None)


def damaged(folder: str | os.PathLike[str], fit: int | None = None) -> list[Checkpoint]:
    """Return the checkpoints that are newer than the newest whole one, newest first: each is cut off or damaged."""
    broken = []
    for found in newest_first(Path(folder), fit):
        if is_whole(found.path):
            break
        broken.append(found)
    return broken


def is_whole(path: Path) -> bool:
    """Return whether all of a file is there and is what was written."""
    try:
        # Opening a FIFO would block.
        if not path.is_file():
            return False
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError, RuntimeError):
        # What zipfile raises for damage depends on where it is: in a header it may look like another compression, or
        # like encryption.
        return False


def newest_first(folder: Path, fit: int | None) -> Iterator[Checkpoint]:
    """Yield the checkpoints that are there, of one fit or of all, whole or not."""
    fits = [int(name[1]) for name in _matches(folder, _FIT)] if fit is None else [fit]
    for number in sorted(fits, reverse=True):
        own = folder_of(folder, number)
        for epoch in sorted((int(name[1]) for name in _matches(own, _EPOCH)), reverse=True):
            yield Checkpoint(own / f"epoch-{epoch}.npz", number, epoch)


def _matches(folder: Path, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    try:
        names = [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        # None was saved there. The caller reports any other error: a training that cannot read its checkpoints must
        # not silently begin at zero.
        return []
    return [found for name in names if (found := pattern.fullmatch(name))]


def folder_of(folder: Path, fit: int) -> Path:
    """Return where the checkpoints of a fit are."""
    return folder / f"fit-{fit}"
