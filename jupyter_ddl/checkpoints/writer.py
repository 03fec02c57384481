"""Writes checkpoints into the folder of `--checkpoint`, each whole or not at all.

Runs on: rank 0.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files
from jupyter_ddl.protocol.checkpoint_folder import Checkpoint, folder_of, newest_first

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

KEPT = 2


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
    own = folder_of(Path(folder), fit)
    own.mkdir(parents=True, exist_ok=True)
    path = own / f"epoch-{epoch}.npz"
    with files.replacing(path, mode=files.SHARED, durable=True) as file:
        content(file)
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


def _tidy(folder: Path, fit: int) -> None:
    """Delete what is older than the last two, and what killed processes left. Rank 0 alone writes, and is done."""
    for old in list(newest_first(folder, fit))[KEPT:]:
        old.path.unlink(missing_ok=True)
    for unfinished in folder_of(folder, fit).glob(files.UNFINISHED.format("epoch-*.npz")):
        unfinished.unlink(missing_ok=True)
