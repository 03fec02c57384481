"""Reads the cores and memory that this process may use, by affinity and cgroup, and binds it to cores.

Read from /proc and /sys, of cgroup version 1 and 2. `root` stands for / in tests.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path("/")


def usable_cores(root: Path = ROOT) -> int:
    """Return how many logical cores this process may keep busy: its affinity, limited by its cgroups' CPU quota."""
    return _within_quota(len(os.sched_getaffinity(0)), root)


def physical_cores(root: Path = ROOT) -> int:
    """Return how many of the usable cores are physical ones: the hardware threads of one core count once."""
    cores = {_siblings(cpu, root) for cpu in os.sched_getaffinity(0)}
    return _within_quota(len(cores), root)


def share_of_cores(local_rank: int, local_size: int, root: Path = ROOT) -> int:
    """Return the cores of one of `local_size` ranks on this host, at least 1; the first ranks take what is left over.

    Runs on: every rank.
    """
    share, left_over = divmod(usable_cores(root), local_size)
    return max(1, share + (local_rank < left_over))


def cores_of(local_rank: int, local_size: int, root: Path = ROOT) -> set[int]:
    """Return the logical cores that one of `local_size` ranks on this host keeps to, of those this process may use.

    Whole physical cores, side by side on one socket, where there are as many as ranks. Ranks that outnumber the cores
    share them.
    """
    cpus = sorted(os.sched_getaffinity(0))
    of_a_core: dict[str, list[int]] = {}
    for cpu in sorted(cpus, key=lambda cpu: (_read(_topology(cpu, root) / "physical_package_id"), cpu)):
        of_a_core.setdefault(_siblings(cpu, root), []).append(cpu)
    units = list(of_a_core.values())
    if len(units) < local_size:
        units = [[cpu] for cpu in cpus]
    if len(units) < local_size:
        return set(units[local_rank % len(units)])
    share, left_over = divmod(len(units), local_size)
    begin = local_rank * share + min(local_rank, left_over)
    return {cpu for unit in units[begin : begin + share + (local_rank < left_over)] for cpu in unit}


def keep_to(cores: set[int]) -> None:
    """Bind this process, its threads and those that they start later to these logical cores."""
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cores)
        except ProcessLookupError:
            # It has ended meanwhile.
            continue


def busy_s(cores: Collection[int], root: Path = ROOT) -> float:
    """Return for how many seconds programs have run on these logical cores since the host started; 0 for not known.

    Linux counts by the ticks of its clock. Interrupts are left out: no program has their time.

    Source: proc_stat(5).
    """
    wanted = {f"cpu{core}" for core in cores}
    rows = [line.split() for line in _read(root / "proc/stat").splitlines()]
    # user, nice, system
    ticks = sum(int(ticks) for name, *counts in rows if name in wanted for ticks in counts[:3])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_limit_bytes(root: Path = ROOT) -> int:
    """Return the memory that this process may use: the machine's, limited by its cgroups."""
    limits = [_memory_total_bytes(root)]
    for folder in cgroup_folders("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(folder / name)
            if text.isdigit():  # version 2 writes "max" where there is no limit
                limits.append(int(text))
    return min(limits)


def _within_quota(count: int, root: Path) -> int:
    return max(1, min(count, math.ceil(_cpu_quota(root))))


def _cpu_quota(root: Path) -> float:
    """Return the cores that the cgroup's CPU quota allows; a huge number where there is none."""
    quotas = [float(2**20)]
    for folder in cgroup_folders("cpu", root):
        text = _read(folder / "cpu.max")
        if not text:
            text = f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"
        # Version 2 writes "max" where there is no quota, version 1 writes -1.
        if found := re.fullmatch(r"(\d+) ([1-9]\d*)", text):
            quotas.append(int(found[1]) / int(found[2]))
    return min(quotas)


def cgroup_folders(controller: str, root: Path) -> list[Path]:
    """Return the folders of this process's cgroup and of those above it, whose limits apply as well."""
    paths = _cgroup_paths(controller, root)
    folders: list[Path] = []
    for line in _read(root / "proc/self/mountinfo").splitlines():
        mount, _, filesystem = line.partition(" - ")
        kind, *rest = filesystem.split()
        if kind == "cgroup2" and "" in paths:
            path = paths[""]
        elif kind == "cgroup" and controller in paths and controller in rest[-1].split(","):
            path = paths[controller]
        else:
            continue
        mount_root, mount_point = mount.split()[3:5]
        top = root / mount_point.lstrip("/")
        # In a container that has no cgroup namespace, the path is the host's, and the mount shows a part of it.
        inner = path[len(mount_root) :] if mount_root != "/" and path.startswith(mount_root) else path
        folder = top / inner.lstrip("/")
        folders += [parent for parent in (folder, *folder.parents) if parent == top or top in parent.parents]
    return folders


def _cgroup_paths(controller: str, root: Path) -> dict[str, str]:
    """Return this process's cgroup of version 1 under the controller's name, and of version 2 under ""."""
    paths: dict[str, str] = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            paths[controller if controllers else ""] = path
    return paths


def _memory_total_bytes(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _siblings(cpu: int, root: Path) -> str:
    """Return a name of the physical core that a logical one belongs to."""
    topology = _topology(cpu, root)
    # Linux 5.1 renamed the file; some containers show neither.
    return _read(topology / "core_cpus_list") or _read(topology / "thread_siblings_list") or str(cpu)


def _topology(cpu: int, root: Path) -> Path:
    return root / f"sys/devices/system/cpu/cpu{cpu}/topology"


def _read(path: Path) -> str:
    """Return a file's text, empty where it cannot be read: which files there are depends on the kernel."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
