"""Writing files so that whoever reads them meanwhile, or after a kill, finds something whole; locking them.

Locks are flock's: the system releases one when its process ends, also a killed one. On NFS, Linux has the server hold
them (Source: flock(2), "NFS details"). The library filelock takes the same lock, but only exclusively, asks for it
20 times a second instead of waiting, and falls back to files that outlive their process (Source: filelock 4.2.12).

Runs on: kernel, Jupyter server, terminal, lease and every rank.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PRIVATE, SHARED = 0o600, 0o666
"""Modes of new files: the user's alone; or as the umask has it, for folders that users share."""
UNFINISHED = ".{}.*.new"
"""Pattern of the names under which a file is written. Only a process that was killed meanwhile leaves one."""


@contextmanager
def replacing(path: Path, *, mode: int = PRIVATE, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the block ends well; else nothing of it is left.

    What is at `path`, also a link, is replaced and never written to. Several processes may do so at once: each writes a
    file of its own.

    Args:
        path: the file; its folder must exist.
        mode: of the file, less the umask.
        durable: it gets its name when all of it is on the disk, and the name is on the disk at the end.

    Raises:
        OSError: it cannot be written; what was there before is there still.
    """
    unfinished = path.with_name(UNFINISHED.format(path.name).replace("*", secrets.token_hex(4)))
    try:
        with open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        # A KeyboardInterrupt too. What went wrong first is what the caller gets.
        with suppress(OSError):
            unfinished.unlink()
        raise
    if durable:
        _sync(path.parent)


def replace(path: Path, content: bytes | str, *, mode: int = PRIVATE) -> None:
    """Write a whole file, as `replacing` does; text as UTF-8.

    Raises:
        OSError: it cannot be written; what was there before is there still.
    """
    # A cell's text may have half of a surrogate pair.
    data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    with replacing(path, mode=mode) as file:
        file.write(data)


def open_to_lock(path: Path, *, mode: int = PRIVATE) -> BinaryIO:
    """Open a file that is there to be locked, and make it where it is missing. It may be written to besides.

    Args:
        path: the file; its folder must exist. It must stay: who locks a removed one excludes nobody.
        mode: of a new file, less the umask.

    Raises:
        OSError: it cannot be opened.
    """
    # For reading and writing, as NFS wants for the two kinds of lock.
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode), "r+b")


def lock(file: BinaryIO, *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file until it is closed, or the process ends.

    Args:
        file: opened to write, unless the lock is shared.
        shared: others may share it.
        wait: for those that hold it.

    Raises:
        BlockingIOError: another one holds it, and is not waited for.
        OSError: the file system has no locks, as some network file systems.
    """
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def locked(path: Path, *, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Hold a file's lock, for which this waits; the folder is made too.

    Raises:
        OSError: as `open_to_lock` and `lock`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_lock(path, mode=mode) as file:
        lock(file)
        yield file


def append(descriptor: int, data: bytes) -> None:
    """Append all of `data` at once, past every buffer of ours.

    Raises:
        OSError: it cannot be written, or not all of it.
    """
    left = memoryview(data)
    while left:
        # A disk that is almost full takes a part, and says so by the count alone.
        left = left[os.write(descriptor, left) :]


def open_to_append(path: Path) -> int:
    """Return a descriptor that appends to a file of this user's own.

    Raises:
        OSError: the file cannot be made, or a link, a FIFO or a device is there.
    """
    # A FIFO that nobody reads would be waited for.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file", str(path))
    return descriptor


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
