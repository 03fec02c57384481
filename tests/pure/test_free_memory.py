"""How much memory may still be taken: the machine's, and within each limit of the process's cgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from jupyter_ddl.host.free_memory import available_bytes

if TYPE_CHECKING:
    from pathlib import Path


def cgroup(root: Path, kind: str, files: dict[str, str]) -> None:
    (root / "proc/self").mkdir(parents=True)
    folder = root / "sys/fs/cgroup/kernel"
    folder.mkdir(parents=True)
    second = kind == "cgroup2"
    (root / "proc/self/cgroup").write_text("0::/kernel\n" if second else "4:memory:/kernel\n")
    options = "rw" if second else "rw,memory"
    (root / "proc/self/mountinfo").write_text(f"30 23 0:26 / /sys/fs/cgroup rw - {kind} cgroup {options}\n")
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("kind", "limit", "used", "cached"),
    [
        ("cgroup2", "memory.max", "memory.current", "inactive_file"),
        ("cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_a_cgroup_limits_it(tmp_path: Path, kind: str, limit: str, used: str, cached: str) -> None:
    cgroup(tmp_path, kind, {limit: "1000\n", used: "800\n", "memory.stat": f"anon 700\n{cached} 50\n"})
    assert available_bytes(tmp_path) == 250


def test_a_cgroup_without_a_limit_does_not(tmp_path: Path) -> None:
    cgroup(tmp_path, "cgroup2", {"memory.max": "max\n", "memory.current": "800\n", "memory.stat": ""})
    assert available_bytes(tmp_path) > psutil.virtual_memory().available / 2


def test_more_than_the_limit_is_none(tmp_path: Path) -> None:
    cgroup(tmp_path, "cgroup2", {"memory.max": "1000\n", "memory.current": "1200\n"})
    assert available_bytes(tmp_path) == 0
