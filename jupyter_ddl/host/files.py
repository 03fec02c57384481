"""Writes files so that a reader always finds a whole one, also after a kill; locks them.

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
"""Pattern of the names of files that are being written. Only a process that was killed meanwhile leaves one."""


@contextmanager
def replacing(path: Path, *, mode: int = PRIVATE, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` when the block ends without an error; else it is removed.

    What is at `path`, also a link, is replaced and never written to. Several processes may do so at once: each writes a
    file of its own.

    Args:
        path: the file; its folder must exist.
        mode: of the file, less the umask.
        durable: the file is on the disk before it gets its name, and the name is on the disk at the end.

    Raises:
        OSError: it cannot be written; the earlier file is unchanged.
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
        # A KeyboardInterrupt too. The caller gets the first error.
        with suppress(OSError):
            unfinished.unlink()
        raise
    if durable:
        sync(path.parent)


def replace(path: Path, content: bytes | str, *, mode: int = PRIVATE) -> None:
    """Write a whole file, as `replacing` does; text as UTF-8.

    Raises:
        OSError: it cannot be written; the earlier file is unchanged.
    """
    # A cell's text may have half of a surrogate pair.
    data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    with replacing(path, mode=mode) as file:
        file.write(data)


def sync(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_to_lock(path: Path, *, mode: int = PRIVATE) -> BinaryIO:
    """Open a file to lock it, and make it where it is missing. It may be written to as well.

    Args:
        path: the file; its folder must exist. It must not be removed: a lock on a removed file excludes no process.
        mode: of a new file, less the umask.

    Raises:
        OSError: it cannot be opened.
    """
    # For reading and writing, as NFS requires for the two kinds of lock.
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode), "r+b")


def lock(file: BinaryIO, *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file until it is closed, or the process ends.

    Args:
        file: opened to write, unless the lock is shared.
        shared: others may share it.
        wait: until the lock is free.

    Raises:
        BlockingIOError: another process holds it, and `wait` is False.
        OSError: the file system has no locks, as some network file systems.
    """
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


def unlock(file: BinaryIO) -> None:
    """Release the lock of an open file, also where a process that was forked meanwhile has the file open too."""
    fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path, *, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Wait for a file's lock, and hold it in the block; make the folder where it is missing.

    Raises:
        OSError: as `open_to_lock` and `lock`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_lock(path, mode=mode) as file:
        lock(file)
        yield file


def append(descriptor: int, data: bytes) -> None:
    """Append all of `data` at once, unbuffered.

    Raises:
        OSError: it cannot be written, or not all of it.
    """
    left = memoryview(data)
    while left:
        # A disk that is almost full takes a part, and only the count shows it.
        left = left[os.write(descriptor, left) :]


def open_to_append(path: Path) -> int:
    """Return a descriptor that appends to a file of this user's own.

    Raises:
        OSError: the file cannot be made, or a link, a FIFO or a device is there.
    """
    return _open_own(path, os.O_WRONLY | os.O_APPEND)


def open_to_splice(path: Path) -> int:
    """Return a descriptor at the end of a file of this user's own, into which a pipe can be spliced; it reads too.

    Linux splices into no file that was opened to append (source: splice(2), EINVAL).

    Raises:
        OSError: as `open_to_append`.
    """
    descriptor = _open_own(path, os.O_RDWR)
    os.lseek(descriptor, 0, os.SEEK_END)
    return descriptor


def _open_own(path: Path, flags: int) -> int:
    # Opening a FIFO without a reader would block.
    flags |= os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file", str(path))
    return descriptor
