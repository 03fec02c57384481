"""Where `--checkpoint DIR` keeps a training, and which of its files is the newest whole one.

    DIR/fit-1/epoch-3.npz      the state after epoch 3 of the cell's first fit, epochs counted from 1
    DIR/fit-1/epoch-4.npz      the last two of each fit are kept
    DIR/fit-2/epoch-1.npz      the cell's second fit
    DIR/fit-1/.epoch-5.npz.new being written: it gets its name when all of it is on the disk

A file is a zip archive, which carries a checksum of each of its members: that tells a whole one from one that was cut
off or damaged. `training/checkpoint/` knows what is in it.

Runs on: kernel and rank 0. Imports no TensorFlow.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

KEPT = 2
_FIT = re.compile(r"fit-([0-9]{1,9})")
_EPOCH = re.compile(r"epoch-([0-9]{1,9})\.npz")
_UNFINISHED = ".epoch-*.npz.new"


@dataclass(frozen=True)
class Checkpoint:
    """A file that is there; whether it is whole, `is_whole` says.

    Attributes:
        path: the file.
        fit: which fit of its cell, from 1.
        epoch: after which epoch, from 1.
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
    return next((found for found in _newest_first(Path(folder), fit) if is_whole(found.path)), None)


def damaged(folder: str | os.PathLike[str], fit: int | None = None) -> list[Checkpoint]:
    """Return the checkpoints that are newer than the newest whole one, newest first: each is cut off or damaged."""
    broken = []
    for found in _newest_first(Path(folder), fit):
        if is_whole(found.path):
            break
        broken.append(found)
    return broken


def is_whole(path: Path) -> bool:
    """Return whether all of a file is there and is what was written."""
    try:
        # A FIFO would be waited for.
        if not path.is_file():
            return False
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError, RuntimeError):
        # What zipfile raises for damage depends on where it is: in a header it may look like another compression, or
        # like encryption.
        return False


def write(folder: str | os.PathLike[str], fit: int, epoch: int, content: Callable[[BinaryIO], None]) -> Checkpoint:
    """Write a checkpoint, whole or not at all, and delete those before the last two of its fit.

    Args:
        folder: what `--checkpoint` was given.
        fit: which fit of its cell, from 1.
        epoch: after which epoch, from 1.
        content: writes to the open file.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    own = _folder_of(Path(folder), fit)
    own.mkdir(parents=True, exist_ok=True)
    path = own / f"epoch-{epoch}.npz"
    unfinished = own / f".{path.name}.new"
    try:
        # Anew: what was never finished, or a link that leads elsewhere.
        unfinished.unlink(missing_ok=True)
        with unfinished.open("xb") as file:
            content(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        # A KeyboardInterrupt too. What a killed process leaves, the next one's `_tidy` takes.
        unfinished.unlink(missing_ok=True)
        raise
    _sync(own)
    _tidy(Path(folder), fit)
    return Checkpoint(path, fit, epoch)


def require_writable(folder: str | os.PathLike[str]) -> None:
    """Make the folder, and raise if it cannot be written to.

    Raises:
        InvalidInput: it cannot.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        probe = Path(folder) / f".can-be-written-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InvalidInput(
            "--checkpoint takes a folder that rank 0 can write to.",
            f"{folder} ({error.strerror or error})",
            "Pass another folder.",
        ) from error


def _newest_first(folder: Path, fit: int | None) -> Iterator[Checkpoint]:
    fits = [int(name[1]) for name in _matches(folder, _FIT)] if fit is None else [fit]
    for number in sorted(fits, reverse=True):
        own = _folder_of(folder, number)
        for epoch in sorted((int(name[1]) for name in _matches(own, _EPOCH)), reverse=True):
            yield Checkpoint(own / f"epoch-{epoch}.npz", number, epoch)


def _matches(folder: Path, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    try:
        names = [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        # None was saved there. Another error is the caller's to tell: a training that cannot read its checkpoints must
        # not begin at zero without a word.
        return []
    return [found for name in names if (found := pattern.fullmatch(name))]


def _folder_of(folder: Path, fit: int) -> Path:
    return folder / f"fit-{fit}"


def _tidy(folder: Path, fit: int) -> None:
    """Delete what is older than the last two, and what was never finished. Rank 0 alone writes, so none is at it."""
    for old in list(_newest_first(folder, fit))[KEPT:]:
        old.path.unlink(missing_ok=True)
    for unfinished in _folder_of(folder, fit).glob(_UNFINISHED):
        unfinished.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Have the new name on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
