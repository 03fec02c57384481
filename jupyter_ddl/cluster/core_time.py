"""Finds out whether a process that is ready to run gets a core.

Runs on: kernel.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

# A process is measured over this time. One that spins gets its share of a crowded core, far more than this share.
_WINDOW_S = 0.5
_STARVED_SHARE = 0.05


@dataclass
class _Look:
    at_s: float
    cpu_s: float
    is_ready: bool
    is_starved: bool = False


class CoreTime:
    """The core time that processes of this host got since the last look at each."""

    def __init__(self) -> None:
        self._looks: dict[int, _Look] = {}

    def is_starved(self, pid: int) -> bool:
        """Return whether a process has been ready to run since the last look, and got hardly any time on a core."""
        now_s = time.monotonic()
        before = self._looks.get(pid)
        if before is not None and now_s - before.at_s < _WINDOW_S:
            return before.is_starved
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                look = _Look(now_s, times.user + times.system, process.status() == psutil.STATUS_RUNNING)
        except (psutil.NoSuchProcess, OSError):
            # It has ended, or the kernel can open no more files, those of /proc included: nothing is known.
            self._looks.pop(pid, None)
            return False
        if before is not None and before.is_ready and look.is_ready:
            look.is_starved = look.cpu_s - before.cpu_s < _STARVED_SHARE * (now_s - before.at_s)
        self._looks[pid] = look
        return look.is_starved
