"""A memory cgroup, in which the Linux kernel ends a process for lack of memory. It takes root."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEMORY = Path("/sys/fs/cgroup/memory")
_EMPTY_S = 60.0


@contextmanager
def memory_cgroup(name: str, mib: int) -> Iterator[Path]:
    """Give a memory cgroup below this process's own; at the end of the block wait until it is empty, and remove it."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":")[2] for line in lines if ":memory:" in line), "")
    folder = _MEMORY / own.lstrip("/") / name
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(mib * 2**20))
    except OSError as error:
        pytest.skip(f"no memory cgroup (version 1) can be made here: {error}")
    try:
        yield folder
    finally:
        deadline_s = time.monotonic() + _EMPTY_S
        while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline_s:
            time.sleep(0.1)
        folder.rmdir()
