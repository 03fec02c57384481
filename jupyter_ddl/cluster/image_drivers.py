"""Ends the programs by which Apptainer shows an image's files, where it was killed before it could end them.

Such a program is in the container's mounts, and holds them: it would stay for good, with what it inherited.

Runs on: every host of a world on several.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

# As proc(5) has the names of processes. Source: Apptainer 1.4, internal/pkg/image/driver.
_DRIVERS = ("squashfuse", "squashfuse_ll", "fuse2fs", "fuse-overlayfs", "gocryptfs")


def end_left(lock: Path) -> None:
    """End the drivers that hold the lock of a world's ranks, if no other process does: they inherited it from ranks.

    Args:
        lock: its file.
    """
    holders = _holders(lock)
    if not all(name in _DRIVERS for name in holders.values()):
        return
    for pid in holders:
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                # It is still the one that was looked at: no other process gets a PID while its descriptor is open.
                if _is_held_by(pid, lock.stat()):
                    signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            finally:
                os.close(descriptor)


def _holders(lock: Path) -> dict[int, str]:
    """Return the names of the processes, but for this one, that have a file open, by PID; of this user alone."""
    try:
        wanted = lock.stat()
    except OSError:
        return {}
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid() and _is_held_by(int(process.name), wanted):
            with suppress(OSError):
                found[int(process.name)] = (process / "comm").read_text().strip()
    return found


def _is_held_by(pid: int, wanted: os.stat_result) -> bool:
    try:
        opened = list(os.scandir(f"/proc/{pid}/fd"))
    except OSError:
        return False
    for one in opened:
        with suppress(OSError):
            if os.path.samestat(one.stat(), wanted):
                return True
    return False
