"""Reads how many files processes here may open, and how much of /dev/shm is free.

Runs on: a terminal.
"""

from __future__ import annotations

import resource
import shutil
from typing import TYPE_CHECKING

from jupyter_ddl.host.cores import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def open_files_limit() -> int | None:
    """Return how many files each process may open that is started from here (`ulimit -n`); None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft in (resource.RLIM_INFINITY, -1) else soft


def free_files(root: Path = ROOT) -> int | None:
    """Return how many more files all processes of the machine may open; None where it does not say.

    Args:
        root: stands for / in tests.

    Source: proc_sys_fs(5), "file-nr".
    """
    try:
        opened, unused, most = map(int, (root / "proc/sys/fs/file-nr").read_text().split())
    except (OSError, ValueError):
        return None
    return max(0, most - opened + unused)


def free_shared_memory_bytes(root: Path = ROOT) -> int | None:
    """Return how much of /dev/shm is free, in which MPI's ranks exchange; None where there is none.

    Args:
        root: stands for / in tests.
    """
    try:
        return shutil.disk_usage(root / "dev/shm").free
    except OSError:
        return None
