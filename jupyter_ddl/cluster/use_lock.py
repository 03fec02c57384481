"""Locks a cluster while a kernel uses its ranks, so that no process ends them as idle meanwhile.

Each kernel that has an active run locks the file `use.lock` of the cluster's folder, shared; what ends idle ranks locks
it alone until they are gone. A run that begins in that time waits, and finds its ranks lost. The system releases the
lock of a kernel that was killed. The time at which the file was changed last is when the ranks were used last.

Runs on: kernel, Jupyter server, a terminal.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.registry import is_locked
from jupyter_ddl.host import files, untrusted_files
from jupyter_ddl.host.private_folders import is_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_NAME = "use.lock"


def make_use_lock(folder: Path) -> None:
    """Make the file, for a cluster that is about to start."""
    (folder / _NAME).touch(mode=0o600)


class UseLock:
    """One kernel's lock of one cluster. Safe to use from any thread.

    Where the file system has no locks, or none can be made, ranks are used without: a run is recorded besides.

    Args:
        folder: the cluster's.

    Attributes:
        noted_s: when this kernel noted a use last, in seconds since the epoch; 0 before the first.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._guard = threading.Lock()
        self._held = 0
        self._file: BinaryIO | None = None
        self.noted_s = 0.0

    @property
    def is_held(self) -> bool:
        """Whether this kernel uses the ranks now."""
        return self._held > 0

    def hold(self) -> None:
        """Hold the lock until `free` is called as often; wait while idle ranks are ended."""
        with self._guard:
            if self._held == 0:
                self._file = _locked(self._path)
                self.noted_s = time.time()
            self._held += 1

    def free(self) -> None:
        """Undo one `hold`; does nothing after `close`."""
        with self._guard:
            if self._held == 1:
                self._release()
            self._held = max(0, self._held - 1)

    def close(self) -> None:
        """Release the lock, however often it is held."""
        with self._guard:
            self._held = 0
            self._release()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock in the block."""
        self.hold()
        try:
            yield
        finally:
            self.free()

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self.noted_s = time.time()
            with file:
                _note_use(file)
                files.unlock(file)


def is_used(folder: Path) -> bool:
    """Return whether a kernel uses the ranks of the cluster that has this folder; False where there are no locks."""
    return is_private(folder) and is_locked(folder, _NAME, shared=False)


def last_use_s(folder: Path) -> float:
    """Return when a kernel used the ranks last, in seconds since the epoch; before that, when they were started."""
    try:
        with untrusted_files.open_file(folder / _NAME, only_own=True) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return 0.0


@contextmanager
def kept_from_use(folder: Path) -> Iterator[bool]:
    """Keep kernels from using the ranks in the block; give False where one uses them now, and keep none from it.

    Where there are no locks it gives True, and keeps none from it either.
    """
    if not (folder / _NAME).is_file():
        # An older version's cluster, or it ends at this moment.
        yield True
        return
    try:
        file = files.open_to_lock(folder / _NAME)
    except OSError:
        yield True
        return
    with file:
        try:
            files.lock(file, wait=False)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass
        yield True


def _locked(path: Path) -> BinaryIO | None:
    try:
        file = files.open_to_lock(path)
    except OSError:
        return None
    try:
        files.lock(file, shared=True)
        _note_use(file)
    except OSError:
        file.close()
        return None
    except BaseException:
        # An interrupt while idle ranks are ended.
        file.close()
        raise
    return file


def _note_use(file: BinaryIO) -> None:
    # By this host's clock, and not by a file server's.
    now_s = time.time()
    os.utime(file.fileno(), (now_s, now_s))


def note_use(folder: Path) -> None:
    """Note that ranks are used at this moment: what ends idle ones counts from here on.

    Raises:
        OSError: it cannot be noted.
    """
    with files.open_to_lock(folder / _NAME) as file:
        _note_use(file)
