"""Reads files of folders in which a cell, or another program, may have left anything in a file's place.

A link is not followed, a FIFO or a device is not opened, a file is read up to a limit whatever size it reports, and
JSON that cannot be parsed is one kind of error: a `ValueError`. Any other problem with a file is an `OSError` that
names it, as if the file could not be read, so that one `except (OSError, ValueError)` covers all that may be there.

Runs on: kernel, Jupyter server, terminal, lease and every rank.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any, BinaryIO

from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_JSON_BYTES = 8 << 20
"""The hosts and devices of ten thousand ranks take a tenth of this."""
MAX_LINE_BYTES = 256 << 20
"""An event is one line, and a figure in it may be large; a longer line is no event of ours."""

_BLOCK_BYTES = 1 << 20


def open_file(path: Path, *, only_own: bool = False) -> BinaryIO:
    """Open a regular file for reading, and never block on what is in its place.

    Args:
        path: the file; its last part must not be a link.
        only_own: it must be this user's too.

    Raises:
        OSError: there is none, or a link, a folder, a FIFO, a socket or a device is there, or another user's file.
    """
    # Before it is opened: opening is enough to rewind some devices.
    _check(os.lstat(path), path, only_own=only_own)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # And after: it may have been replaced.
        _check(os.fstat(descriptor), path, only_own=only_own)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def is_file(path: Path) -> bool:
    """Return whether a regular file is there, and no link, FIFO or device in its place."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        # ValueError: a null character in the name.
        return False


def read_bytes(path: Path, *, limit: int = MAX_JSON_BYTES, only_own: bool = False) -> bytes:
    """Return all that a file holds.

    Args:
        path: the file.
        limit: bytes; a file that has more is refused unread.
        only_own: it must be this user's.

    Raises:
        OSError: as `open_file`; or the file is too large.
    """
    with open_file(path, only_own=only_own) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(path))
    return content


def read_beginning(path: Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a file, or all where it has fewer.

    Raises:
        OSError: as `open_file`.
    """
    with open_file(path) as file:
        return file.read(limit)


def read_json(path: Path, *, only_own: bool = False) -> Any:
    """Return the value of a JSON file.

    Raises:
        OSError: as `read_bytes`.
        ValueError: it holds no JSON, or JSON that no program of ours wrote.
    """
    return parse_json(read_bytes(path, only_own=only_own))


def read_object(path: Path, *, only_own: bool = False) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        OSError: as `read_bytes`.
        ValueError: it holds no JSON object.
    """
    content = read_json(path, only_own=only_own)
    if not isinstance(content, dict):
        # Like every other problem with a file's content, so that a reader has one case to handle.
        raise ValueError(  # noqa: TRY004
            f"{path} must hold a JSON object. Received: {type(content).__name__}."
        )
    return content


def lines(file: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file from its position on, each with its newline; one longer than `limit` is left out.

    Holes of a sparse file are not read: what stands before and after one is a line of its own.
    """
    held: list[bytes] = []
    held_bytes = 0
    at = file.tell()
    while True:
        start = next_data(file, at)
        if start != at and held:
            held, held_bytes = [], 0
        file.seek(start)
        block = file.read(_BLOCK_BYTES)
        if not block:
            break
        at = start + len(block)
        *ended, rest = block.split(b"\n")
        for line in ended:
            if held_bytes + len(line) < limit:
                yield b"".join((*held, line, b"\n"))
            held, held_bytes = [], 0
        # Of a line that is too long only its length is kept.
        held_bytes += len(rest)
        held = [*held, rest] if held_bytes < limit else []
    if held_bytes and held:
        yield b"".join(held)


def lines_from(path: Path, position: int, step_bytes: int) -> tuple[list[bytes], int]:
    """Return the next whole lines of a file that may still grow, without their ends, and the place after them.

    Args:
        path: the file; one that cannot be read, or is not written yet, has no lines.
        position: where to begin, in bytes.
        step_bytes: about how much to return; a longer line is returned alone, up to MAX_LINE_BYTES.
    """
    size = step_bytes
    try:
        with open_file(path) as file:
            while True:
                file.seek(position)
                data = file.read(size)
                end = data.rfind(b"\n") + 1
                if end or len(data) < size or size >= MAX_LINE_BYTES:
                    return data.split(b"\n")[:-1], position + end
                size *= 2
    except OSError:
        return [], position


def next_data(file: BinaryIO, position: int) -> int:
    """Return the first position from `position` on that is in no hole of a sparse file; its size where there is none.

    Changes the file's own position.
    """
    try:
        return os.lseek(file.fileno(), position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            # A file system that does not report holes.
            return position
        return max(position, os.fstat(file.fileno()).st_size)


def _check(found: os.stat_result, path: Path, *, only_own: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, f"not a file but {_kind(found.st_mode)}", str(path))
    if only_own and found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, f"a file of user {found.st_uid}", str(path))


def _kind(mode: int) -> str:
    kinds = {
        stat.S_ISLNK: "a link",
        stat.S_ISDIR: "a folder",
        stat.S_ISFIFO: "a FIFO",
        stat.S_ISSOCK: "a socket",
    }
    return next((name for is_it, name in kinds.items() if is_it(mode)), "a device")
