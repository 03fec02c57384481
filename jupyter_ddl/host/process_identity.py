"""Identifies a process uniquely: PIDs are reused, clocks are set, and hosts share their users' homes.

A process's identity is the boot of its host, the PID namespace (a container has its own), the PID there, and its start
in clock ticks since the boot. It has no wall-clock time: the start in seconds since the epoch, as a system computes it,
changes by a second when the clock is set.
Source: proc(5), /proc/pid/stat, field 22; /proc/sys/kernel/random/boot_id.

Runs on: kernel, Jupyter server, terminal, lease and every rank.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_MOST = 2**31
# What earlier versions wrote in place of ticks: seconds since the epoch, which change when the clock is set.
_OLD_START = ("started_s", "create_time")
_OLD_TOLERANCE_S = 2.0
_ENDED = ("Z", "X")


def own() -> dict[str, Any]:
    """Return the identity of the calling process, as JSON values."""
    found = of(os.getpid())
    assert found is not None
    return found


def of(pid: int) -> dict[str, Any] | None:
    """Return the identity of a process of this host, as JSON values; None where no process has that PID.

    A zombie does not count: it has ended.

    Args:
        pid: the process's, in this process's PID namespace.
    """
    start_ticks = _start_ticks(pid)
    return None if start_ticks is None else {**here(), "pid": pid, "start_ticks": start_ticks}


def here() -> dict[str, str]:
    """Return the identity of the place whose PIDs this process sees: a boot of a host, or a container on it.

    In a sandbox without such files in /proc, the host's name stands for its boot.
    """
    host = socket.gethostname()
    try:
        boot = _BOOT.read_text().strip()
    except OSError:
        boot = f"of {host}"
    try:
        pid_namespace = str(_NAMESPACE.readlink())
    except OSError:
        pid_namespace = "unknown"
    return {"host": host, "boot": boot, "pid_namespace": pid_namespace}


def lives(record: object) -> bool | None:
    """Return whether a recorded process still lives; None where that cannot be known here.

    Args:
        record: what `of` returned, or what a file holds in its place. Anything else is the record of no process that
            lives.
    """
    if not isinstance(record, dict):
        return False
    place = here()
    if "boot" not in record:
        return _lived_by_clock(record) if record.get("host", place["host"]) == place["host"] else None
    if record["boot"] != place["boot"] or record.get("pid_namespace") != place["pid_namespace"]:
        return None
    start_ticks = _start_ticks(record.get("pid"))
    return start_ticks is not None and start_ticks == record.get("start_ticks")


def is_of_an_earlier_boot(record: object) -> bool:
    """Return whether a process was recorded on a host of this one's name, under another boot: all of those have ended.

    Delete nothing because of it: two hosts may have one name.
    """
    place = here()
    return isinstance(record, dict) and record.get("host") == place["host"] and record.get("boot") != place["boot"]


def _start_ticks(pid: object) -> int | None:
    """Return when a process started, in clock ticks since boot; None where there is none, or it has ended."""
    if not _is_number(pid):
        return None
    try:
        # The name, in brackets, may hold spaces and brackets.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0].decode() in _ENDED else int(fields[19])


def _lived_by_clock(record: dict[str, Any]) -> bool:
    """Return whether a process that an earlier version recorded by the wall clock lives."""
    import psutil

    pid = record.get("pid")
    started_s = next((record[name] for name in _OLD_START if name in record), None)
    if not _is_number(pid) or isinstance(started_s, bool) or not isinstance(started_s, int | float):
        return False
    try:
        process = psutil.Process(pid)
        is_it = abs(process.create_time() - started_s) < _OLD_TOLERANCE_S
        return is_it and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OverflowError):
        return False


def _is_number(pid: object) -> bool:
    return isinstance(pid, int) and not isinstance(pid, bool) and 0 < pid < _MOST
