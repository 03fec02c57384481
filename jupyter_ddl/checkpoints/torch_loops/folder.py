"""Finds and makes the checkpoints of a loop of PyTorch's, each a folder that is whole or not there.

    DIR/loop-1/epoch-3/          the state after epoch 3 of the cell's first loop, epochs counted from 1
    DIR/loop-1/epoch-4/          the last two of each loop are kept
    DIR/loop-1/.epoch-5.3f9c61d2 being written: it gets its name when all ranks have written their parts

Runs on: every rank; rank 0 makes and removes.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from pathlib import Path

from jupyter_ddl.checkpoints.writer import KEPT, require_writable
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files

_EPOCH = re.compile(r"epoch-([0-9]{1,9})")
_UNFINISHED = ".epoch-*"


class LoopFolder:
    """The checkpoints of one loop.

    Args:
        folder: what `--checkpoint` was given.
        loop: which loop of its cell, from 1.
    """

    def __init__(self, folder: str | os.PathLike[str], loop: int) -> None:
        self.path = Path(folder) / f"loop-{loop}"

    def newest(self) -> tuple[int, Path] | None:
        """Return the last epoch that was saved, from 1, and its folder; None where there is none."""
        return max(self._whole(), default=None)

    def make(self) -> None:
        """Make the loop's folder.

        Raises:
            InvalidInput: it cannot be written to.
        """
        require_writable(self.path)

    def unfinished(self, epoch: int) -> Path:
        """Return where an epoch is to be written."""
        return self.path / f".epoch-{epoch}.{secrets.token_hex(4)}"

    def finish(self, written: Path, epoch: int) -> Path:
        """Give what all ranks have written its name, and remove those before the last two, and what was cut off.

        Raises:
            OSError: it cannot be renamed.
        """
        path = self.path / f"epoch-{epoch}"
        if path.exists():
            # An epoch that is trained again, after a newer one was removed by hand.
            shutil.rmtree(path)
        written.rename(path)
        files.sync(self.path)
        for _, old in sorted(self._whole())[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        for cut_off in self.path.glob(_UNFINISHED):
            shutil.rmtree(cut_off, ignore_errors=True)
        return path

    def _whole(self) -> list[tuple[int, Path]]:
        try:
            found = [(_EPOCH.fullmatch(path.name), path) for path in self.path.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [(int(match[1]), path) for match, path in found if match is not None and path.is_dir()]


def check_own(path: Path) -> None:
    """Check that a checkpoint was written by this user: torch.distributed.checkpoint reads it with pickle.

    Raises:
        InvalidInput: another user wrote a part of it, which could run code here.
    """
    trusted = {0, os.geteuid()}
    for part in (path, *path.iterdir()):
        if part.stat(follow_symlinks=False).st_uid not in trusted:
            raise InvalidInput(
                "A checkpoint of PyTorch's is read where its user wrote it, since reading it can run code.",
                f"{part}, of user {part.stat(follow_symlinks=False).st_uid}",
                "Copy the folder, if you trust it, and pass the copy.",
            )
