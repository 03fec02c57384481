"""Makes this process's own private folder on a shared disk, and removes it when the process has ended.

A process that ends normally, or by an error, removes its folders itself. One that is killed cannot; so each folder
names its process, and the next process that uses the disk removes those of its own user whose process is gone.

Runs on: every rank.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host import process_identity, untrusted_files
from jupyter_ddl.host.private_folders import check_private

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "jupyter_ddl-cache-"
MARK = "owner.json"
_own: dict[Path, Path] = {}


def own_folder(place: Path) -> Path:
    """Return this process's folder in `place`, made at the first call; what dead processes left there is removed.

    Raises:
        FolderNotPrivate: another user could put a folder of their own in its place.
        OSError: it cannot be made.
    """
    place = place.resolve()
    if place not in _own:
        remove_stale(place)
        _own[place] = _made(place)
    return _own[place]


@contextmanager
def passing_folder(place: Path) -> Iterator[Path]:
    """Make a folder inside this process's own in `place`; remove it at the end, with its parent if that was new.

    Raises:
        OSError: it cannot be made.
    """
    place = place.resolve()
    is_new = place not in _own
    folder = Path(tempfile.mkdtemp(dir=own_folder(place)))
    try:
        yield folder
    finally:
        # A folder that was there before may be in use, even if empty: a cache's files come with its first pass.
        shutil.rmtree(_own.pop(place) if is_new else folder)


def remove_stale(place: Path) -> list[Path]:
    """Remove the folders that processes of this user and of this host left in `place` when they were killed.

    Returns:
        The folders that were removed.
    """
    stale = [path for path in place.glob(f"{PREFIX}*") if _is_ours(path) and _is_dead(path)]
    for path in stale:
        # Another rank of this host may be removing it too.
        shutil.rmtree(path, ignore_errors=True)
    return stale


def _made(place: Path) -> Path:
    me = process_identity.own()
    folder = place / f"{PREFIX}{os.getuid()}-{me['host']}-{me['pid']}-{me['start_ticks']}"
    folder.mkdir(mode=0o700)
    try:
        check_private(folder, "where=")
    except OSError:
        folder.rmdir()
        raise
    (folder / MARK).write_text(json.dumps(me))
    # A child of a fork has this in its memory too, and must leave the folder alone.
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    """Return whether this user's process made the folder: it is no link, it is this user's, and closed to others."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return path.is_dir() and not path.is_symlink() and status.st_uid == os.getuid() and status.st_mode & 0o077 == 0


def _mark(path: Path) -> dict[str, object] | None:
    """Return the process of a folder; None where that cannot be read: it is being made, or is no folder of ours."""
    try:
        return untrusted_files.read_object(path / MARK, only_own=True)
    except (OSError, ValueError):
        return None


def _is_dead(path: Path) -> bool:
    """Return whether the process of a folder is known to have ended: only this host's process ids can be checked."""
    mark = _mark(path)
    is_here = mark is not None and mark.get("host") == process_identity.here()["host"]
    return is_here and process_identity.lives(mark) is False
