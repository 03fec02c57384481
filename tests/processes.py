"""Which processes a test started, by a mark in their environment, and what they are at."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "JUPYTER_DDL_TEST_SESSION"
_COMMAND_CHARACTERS = 160


def marked_processes(mark: str) -> list[psutil.Process]:
    """Return every other process whose environment carries the mark: also one that was given to another parent."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def described() -> str:
    """Return what the machine and every process of the tests, also of those beside these, are at: a line each."""
    machine = (
        f"load {os.getloadavg()}, {psutil.virtual_memory().available >> 20} MiB of memory free, "
        f"{psutil.disk_usage(tempfile.gettempdir()).free >> 20} MiB of disk"
    )
    lines = [machine, "pid parent state age cpu waits-in command"]
    for process in psutil.process_iter():
        # One that ends meanwhile, or another user's, is not told of.
        with suppress(psutil.Error, OSError):
            if MARK in process.environ():
                lines.append(_line(process))
    return "\n".join(lines)


def _line(process: psutil.Process) -> str:
    with process.oneshot():
        used = process.cpu_times()
        waits = Path(f"/proc/{process.pid}/wchan").read_text() or "-"
        command = " ".join(process.cmdline()).replace("\n", " ")[:_COMMAND_CHARACTERS]
        age_s = time.time() - process.create_time()
        return (
            f"{process.pid} {process.ppid()} {process.status()} {age_s:.0f} s {used.user + used.system:.1f} s "
            f"{waits} {command}"
        )
