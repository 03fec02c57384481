"""Counts how many more threads, processes among them, may start here: by `ulimit -u`, by cgroups, by the machine.

Runs on: kernel, a terminal.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host.cores import ROOT, cgroup_folders
from jupyter_ddl.host.free_memory import number_in
from jupyter_ddl.protocol.number_texts import counted

if TYPE_CHECKING:
    from pathlib import Path

# What a cluster has at least, measured on 2026-11-28 without a framework: lease, controller, mpiexec, what the kernel
# starts, and each rank with the process beside it (35 with 1 rank, 50 with 2, 79 with 4). TensorFlow takes more.
_OF_A_CLUSTER, _OF_A_RANK = 20, 14


def check_threads(ranks: int, root: Path = ROOT) -> None:
    """Check that the threads of a cluster with that many ranks on this host can be started.

    Args:
        ranks: how many.
        root: stands for / in tests.

    Raises:
        HostUnfit: they cannot.
    """
    needed = _OF_A_CLUSTER + _OF_A_RANK * ranks
    for left, limit, remedy in (
        (free_by_limit(root), "`ulimit -u`", f"`ulimit -u {needed + 4096}`, where Jupyter is started"),
        (free_by_cgroups(root), "pids.max of the container", "start the container with more, as --pids-limit 4096"),
    ):
        if left is not None and left < needed:
            raise HostUnfit(
                f"A cluster of {counted(ranks, 'rank')} starts {needed:,} threads at least.",
                f"{left:,} more that you may start ({limit})",
                f"End what runs besides, start fewer ranks, or raise the limit: {remedy}.",
            )


def free_by_limit(root: Path = ROOT) -> int | None:
    """Return how many more this user's limit allows; None without one.

    Args:
        root: stands for / in tests.
    """
    most = limit_of_user()
    # Source: Linux 6.12, kernel/fork.c, copy_process: root has none.
    if most is None or os.getuid() == 0:
        return None
    return max(0, most - sum(_threads_of(status) for status in (root / "proc").glob("[0-9]*/status")))


def limit_of_user() -> int | None:
    """Return how many threads each user but root may have that starts from here (`ulimit -u`); None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return None if soft in (resource.RLIM_INFINITY, -1) else soft


def free_on_machine(root: Path = ROOT) -> int | None:
    """Return how many more all users of the machine may start; None where it does not say.

    Args:
        root: stands for / in tests.

    Source: proc_sys_kernel(5), "pid_max" and "threads-max"; proc_loadavg(5), the fourth field.
    """
    most = [number_in(root / "proc/sys/kernel" / name) for name in ("pid_max", "threads-max")]
    try:
        there = int((root / "proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None
    known = [number for number in most if number is not None]
    return max(0, min(known) - there) if known else None


def free_by_cgroups(root: Path = ROOT) -> int | None:
    """Return how many more this process's cgroups allow; None without a limit.

    Args:
        root: stands for / in tests.
    """
    left: list[int] = []
    for folder in cgroup_folders("pids", root):
        most, used = (number_in(folder / name) for name in ("pids.max", "pids.current"))
        if most is not None and used is not None:
            left.append(most - used)
    return max(0, min(left)) if left else None


def _threads_of(status: Path) -> int:
    """Return how many threads a process of this user's has; 0 for another user's."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        # It has ended.
        return 0
    found = dict(line.split(":", 1) for line in lines if line.startswith(("Uid:", "Threads:")))
    is_own = int(found.get("Uid", "-1").split()[0]) == os.getuid()
    return int(found.get("Threads", "0")) if is_own else 0
