"""Reads how much memory this process and its children may still take.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from jupyter_ddl.host.cores import ROOT, cgroup_folders

if TYPE_CHECKING:
    from pathlib import Path

# Of version 2 and 1: the limit, what is used, and the part of that which the system gives back when asked.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_bytes(root: Path = ROOT) -> int:
    """Return the memory that is free, or can be freed: of the machine, and within each limit of this cgroup."""
    left = [psutil.virtual_memory().available]
    for folder in cgroup_folders("memory", root):
        for limit, used, cached in _FILES:
            if (most := number_in(folder / limit)) is not None and (taken := number_in(folder / used)) is not None:
                left.append(most - taken + _cached(folder / "memory.stat", cached))
    return max(0, min(left))


def number_in(path: Path) -> int | None:
    """Return the number that a file of a cgroup has; None where it is not there, or says "max"."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _cached(path: Path, name: str) -> int:
    found = (line.split() for line in _text(path).splitlines())
    return next((int(parts[1]) for parts in found if len(parts) == 2 and parts[0] == name), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
