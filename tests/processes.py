"""Which processes a test started, by a mark in their environment."""

from __future__ import annotations

import os

import psutil

MARK = "JUPYTER_DDL_TEST_SESSION"


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
