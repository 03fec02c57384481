"""Finds storage of this node where a rank may keep its part of the data, and how much room there is.

| where | places, in this order |
|---|---|
| `ramdisk` | /mnt/global_ramdisk, /dev/shm |
| `nvme` | $SLURM_TMPDIR, $TMPDIR, /mnt/nvmeof |
| a folder | that folder |

Runs on: every rank.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.cores import memory_limit_bytes
from jupyter_ddl.protocol.number_texts import size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RAMDISK = "ramdisk"
NVME = "nvme"
# A variable of the environment, or a path.
PLACES = {
    RAMDISK: ("/mnt/global_ramdisk", "/dev/shm"),  # noqa: S108 (where this node's memory is mounted)
    NVME: ("$SLURM_TMPDIR", "$TMPDIR", "/mnt/nvmeof"),
}
_IN_MEMORY = ("tmpfs", "ramfs")
_ON_A_NETWORK = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "afs", "panfs")
_KEPT_FREE = 0.05  # of a place's room, for other writers


@dataclass(frozen=True)
class Place:
    """Where a cache goes.

    Attributes:
        path: the folder; None for this process's memory.
        free_bytes: what may be written there.
    """

    path: Path | None
    free_bytes: int


def find_place(where: str | os.PathLike[str], need_bytes: int) -> Place:
    """Return the first place that has room.

    Args:
        where: "ramdisk", "nvme", or a folder.
        need_bytes: of all ranks of this host together.

    Raises:
        InvalidInput: there is no such place, or none with that room; says of each why.
    """
    where = os.fspath(where)
    return first_with_room(
        PLACES.get(where, (where,)),
        need_bytes,
        f"A cache needs room: {size(need_bytes)} for the ranks of this host.",
        "Pass a folder with more room as where=..., cache smaller elements (before they are decoded), or do not cache.",
    )


def first_with_room(names: Sequence[str], need_bytes: int, rule: str, remedy: str) -> Place:
    """Return the first of some places that has room.

    Args:
        names: folders, or variables of the environment that name them ("$TMPDIR").
        need_bytes: of all ranks of this host together.
        rule: what the error says, before it says of each place why not.
        remedy: what it says after that.

    Raises:
        InvalidInput: there is none.
    """
    refused = []
    for name in names:
        found = _place(name)
        if isinstance(found, str):
            refused.append(f"{name} {found}")
        elif found.free_bytes < need_bytes:
            refused.append(f"{name} has room for {size(found.free_bytes)}")
        else:
            return found
    raise InvalidInput(rule, "; ".join(refused), remedy)


def check_memory(need_bytes: int) -> Place:
    """Return this process's memory, with how much of it is free.

    Args:
        need_bytes: of all ranks of this host together.

    Raises:
        InvalidInput: less than that.
    """
    free_bytes = int(_free_memory_bytes() * (1 - _KEPT_FREE))
    if free_bytes < need_bytes:
        raise InvalidInput(
            f"A cache in memory needs room: {size(need_bytes)} for the ranks of this host.",
            f"{size(free_bytes)} free",
            'Pass where="nvme", or cache smaller elements (before they are decoded).',
        )
    return Place(None, free_bytes)


def _place(name: str) -> Place | str:
    """Return a place, or why it is none."""
    value = os.environ.get(name[1:], "") if name.startswith("$") else name
    if not value:
        return "is not set"
    path = Path(value).expanduser()
    if not path.is_dir():
        return "is no folder here"
    if not os.access(path, os.W_OK | os.X_OK):
        return "cannot be written to"
    file_system = _file_system(path, {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)})
    # A variable may point anywhere; a disk mounted under a name of its own is meant for this.
    if name.startswith("$") and file_system in _IN_MEMORY:
        return "is memory, not a disk"
    if name.startswith("$") and file_system in _ON_A_NETWORK:
        return f"is on a network ({file_system})"
    free_bytes = shutil.disk_usage(path).free
    if file_system in _IN_MEMORY:
        # Such a disk may be larger than the memory that it lives in.
        free_bytes = min(free_bytes, _free_memory_bytes())
    return Place(path, int(free_bytes * (1 - _KEPT_FREE)))


def _free_memory_bytes() -> int:
    """Return how much memory this process may still take: of the host's, and of its job's limit.

    The memory of the job's other processes is not subtracted: the kernel counts cached files with it, and would drop
    those.
    """
    left_bytes = memory_limit_bytes() - psutil.Process().memory_info().rss
    return max(min(psutil.virtual_memory().available, left_bytes), 0)


def _file_system(path: Path, mounts: Mapping[str, str]) -> str:
    """Return the kind of file system that a folder is on: of the innermost mount that holds it."""
    resolved = path.resolve()
    holding = [mount for mount in mounts if resolved.is_relative_to(mount)]
    return mounts[max(holding, key=len)] if holding else ""
