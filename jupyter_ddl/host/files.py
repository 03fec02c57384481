"""Writing files so that whoever reads them meanwhile, or after a kill, finds something whole."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
