"""Finds the folder of this host's clusters, and the clusters that run on the user's other hosts.

Hosts share their users' homes, and containers their host's: each boot of a host, and each PID namespace on it, has a
folder HOST-ID of its own among the clusters. PIDs are valid only there.

Runs on: kernel, Jupyter server and the lease.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.host import files, process_identity, untrusted_files
from jupyter_ddl.host.private_folders import is_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_LOCK = "lease.lock"
_HOST_CHARACTERS = 64


def here() -> Path:
    """Return the folder of the clusters of this host, or container, since it was booted."""
    place = process_identity.here()
    known = hashlib.sha256(f"{place['boot']} {place['pid_namespace']}".encode()).hexdigest()[:8]
    clusters = paths.clusters_dir()
    # A host may be renamed while clusters run on it.
    found = next((name for name in names(clusters) if name.endswith(f"-{known}")), None)
    host = re.sub(r"[^A-Za-z0-9.-]", "_", place["host"])[:_HOST_CHARACTERS]
    return clusters / (found or f"{host}-{known}")


def names(folder: Path) -> list[str]:
    """Return the names of what is in a folder, in order; none where it cannot be listed."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        # No cluster has been started yet, or it is a file.
        return []


def hold_lock(folder: Path, name: str = _LOCK) -> None:
    """Lock a file of a folder for as long as the calling process lives.

    Runs on: the lease; for a job's folder the kernel.
    """
    with files.open_to_lock(folder / name) as file:
        # A file system without locks: other hosts cannot find out whether it runs.
        with suppress(OSError):
            # Waits while another host tests the lock, which takes microseconds.
            files.lock(file)
        # A second descriptor of the locked file, which no code closes.
        os.dup(file.fileno())


def elsewhere() -> Iterator[tuple[str, str]]:
    """Yield name and host of each cluster of this user's that runs on another host."""
    yield from ((folder.name, host) for folder, host in folders_elsewhere())


def folders_elsewhere() -> Iterator[tuple[Path, str]]:
    """Yield folder and host of each cluster of this user's that runs on another host, as far as their folders show it.

    Their PIDs mean nothing here: a cluster runs where its lease holds the lock. Where the file system has no locks
    between hosts, one whose end is not recorded counts as running.
    """
    own, clusters = here(), paths.clusters_dir()
    for place in names(clusters):
        if clusters / place != own:
            for name in names(clusters / place):
                host = host_of(clusters / place / name)
                if host is not None:
                    yield clusters / place / name, host


def host_of(folder: Path) -> str | None:
    """Return the host on which the cluster of a folder runs, by its lease's lock; None where it does not run."""
    if not is_private(folder):
        return None
    try:
        record = untrusted_files.read_object(folder / "lease.json", only_own=True)
        with untrusted_files.open_file(folder / _LOCK, only_own=True) as file:
            runs = _is_locked(file, folder)
    except (OSError, ValueError):
        return None
    host = record.get("host")
    named = host if isinstance(host, str) and host.isprintable() else "another host"
    return named if runs else None


def is_locked(folder: Path, name: str, *, shared: bool = True) -> bool:
    """Return whether a process holds the lock of a file of a folder; False where there are no locks.

    Args:
        folder: of the file.
        name: the file's.
        shared: a lock that others may share does not count.
    """
    try:
        with untrusted_files.open_file(folder / name, only_own=True) as file:
            files.lock(file, shared=shared, wait=False)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_locked(file: BinaryIO, folder: Path) -> bool:
    """Return whether a lease holds its folder's lock; where there are no locks, whether no end is recorded."""
    try:
        files.lock(file, shared=True, wait=False)
    except BlockingIOError:
        return True
    except OSError:
        return not (folder / "ended.json").exists()
    return False
