"""This process's own folder on a disk that others use too: made private, and cleared away when the process has ended.

A process that ends normally, or by an error, removes its folders itself. One that is killed cannot; so each folder says
whose it is, and the next process that comes to the same disk removes those of its own user whose process is gone.

Runs on: every rank.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "jupyter_ddl-cache-"
MARK = "owner.json"
_own: dict[Path, Path] = {}


def own_folder(place: Path) -> Path:
    """Return this process's folder in `place`, made at the first call; what dead processes left there is removed.

    Raises:
        OSError: it cannot be made.
    """
    place = place.resolve()
    if place not in _own:
        remove_stale(place)
        _own[place] = _made(place)
    return _own[place]


@contextmanager
def passing_folder(place: Path) -> Iterator[Path]:
    """Make a folder inside this process's own in `place`, and remove it at the end, with the own one if that is new.

    Raises:
        OSError: it cannot be made.
    """
    place = place.resolve()
    is_new = place not in _own
    folder = Path(tempfile.mkdtemp(dir=own_folder(place)))
    try:
        yield folder
    finally:
        # What was there before may be somebody's, even if empty: a cache's files come with its first pass.
        shutil.rmtree(_own.pop(place) if is_new else folder)


def remove_stale(place: Path) -> list[Path]:
    """Remove the folders that processes of this user and of this host left in `place` when they were killed.

    Returns:
        The folders that are gone.
    """
    stale = [path for path in place.glob(f"{PREFIX}*") if _is_ours(path) and _is_dead(_mark(path))]
    for path in stale:
        # Another rank of this host may be removing it too.
        shutil.rmtree(path, ignore_errors=True)
    return stale


def _made(place: Path) -> Path:
    me = _identity(os.getpid())
    folder = place / f"{PREFIX}{os.getuid()}-{socket.gethostname()}-{os.getpid()}-{me['start']}"
    folder.mkdir(mode=0o700)
    (folder / MARK).write_text(json.dumps(me))
    # A child of a fork has this in its memory too, and must leave the folder alone.
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    """Return whether this user's process made the folder: not a link, nobody else's, closed to others."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return path.is_dir() and not path.is_symlink() and status.st_uid == os.getuid() and status.st_mode & 0o077 == 0


def _mark(path: Path) -> dict[str, object] | None:
    """Return whose folder it is; None where that cannot be read: it is being made, or is no folder of ours."""
    try:
        mark = json.loads((path / MARK).read_text())
    except (OSError, ValueError):
        return None
    return mark if isinstance(mark, dict) else None


def _is_dead(mark: dict[str, object] | None) -> bool:
    """Return whether the process is known to have ended: only this host's process numbers say something here."""
    pid = mark and mark.get("pid")
    if mark is None or not isinstance(pid, int):
        return False
    here = _identity(os.getpid())
    if any(mark.get(name) != here[name] for name in ("host", "boot", "processes")):
        return False
    return _identity(pid)["start"] != mark.get("start")


def _identity(pid: int) -> dict[str, object]:
    """Return what names a process for good: its number is given again, but not with the same start.

    `start` is in clock ticks since boot, None where there is no such process. Source: proc(5), /proc/pid/stat.
    """
    try:
        # The name, in brackets, may hold spaces and brackets.
        start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        start = None
    return {
        "host": socket.gethostname(),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "processes": str(Path("/proc/self/ns/pid").readlink()),
        "pid": pid,
        "start": start,
    }
