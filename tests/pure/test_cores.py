"""Cores and memory by affinity and cgroup, read from trees made here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.host.cores import busy_s, cores_of, memory_limit_bytes, physical_cores, share_of_cores, usable_cores

if TYPE_CHECKING:
    from pathlib import Path

GIB = 2**30


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


V2_MOUNT = "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNTS = (
    "33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
)
MEMINFO = {"proc/meminfo": f"MemTotal:       {16 * GIB // 1024} kB\nMemFree: 1 kB"}


def version_2(quota: str = "max 100000", memory: str = "max", above: str = "max 100000") -> dict[str, str]:
    return MEMINFO | {
        "proc/self/cgroup": "0::/user/job",
        "proc/self/mountinfo": V2_MOUNT,
        "sys/fs/cgroup/user/cpu.max": above,
        "sys/fs/cgroup/user/job/cpu.max": quota,
        "sys/fs/cgroup/user/job/memory.max": memory,
    }


@pytest.mark.usefixtures("eight_cores")
class TestUsableCores:
    def test_affinity_alone_where_there_is_no_cgroup(self, tmp_path: Path) -> None:
        assert usable_cores(tmp_path) == 8

    @pytest.mark.parametrize(
        ("quota", "cores"),
        [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1), ("9900000 100000", 8)],
    )
    def test_version_2_quota(self, tmp_path: Path, quota: str, cores: int) -> None:
        assert usable_cores(write(tmp_path, version_2(quota))) == cores

    def test_quota_of_a_cgroup_above(self, tmp_path: Path) -> None:
        assert usable_cores(write(tmp_path, version_2("400000 100000", above="300000 100000"))) == 3

    @pytest.mark.parametrize(("quota", "cores"), [("-1", 8), ("250000", 3)])
    def test_version_1_quota(self, tmp_path: Path, quota: str, cores: int) -> None:
        files = {
            "proc/self/cgroup": "5:cpu,cpuacct:/slurm/job_7\n4:memory:/slurm/job_7",
            "proc/self/mountinfo": V1_MOUNTS,
            "sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_quota_us": quota,
            "sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_period_us": "100000",
        }
        assert usable_cores(write(tmp_path, files)) == cores

    def test_version_1_in_a_container_that_shows_the_hosts_path(self, tmp_path: Path) -> None:
        files = {
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc",
            "proc/self/mountinfo": V1_MOUNTS.replace("0:29 /", "0:29 /docker/abc"),
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
        }
        assert usable_cores(write(tmp_path, files)) == 2

    def test_shares_add_up_and_each_rank_has_one(self, tmp_path: Path) -> None:
        assert [share_of_cores(rank, 3, tmp_path) for rank in range(3)] == [3, 3, 2]
        assert [share_of_cores(rank, 16, tmp_path) for rank in (0, 15)] == [1, 1]


@pytest.mark.usefixtures("eight_cores")
class TestPhysicalCores:
    @pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
    def test_hardware_threads_of_a_core_count_once(self, tmp_path: Path, name: str) -> None:
        tree = {f"sys/devices/system/cpu/cpu{cpu}/topology/{name}": f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
        assert physical_cores(write(tmp_path, tree)) == 4

    def test_every_core_where_the_kernel_does_not_tell(self, tmp_path: Path) -> None:
        assert physical_cores(tmp_path) == 8

    def test_no_more_than_the_quota(self, tmp_path: Path) -> None:
        assert physical_cores(write(tmp_path, version_2("200000 100000"))) == 2


@pytest.mark.usefixtures("eight_cores")
class TestCoresOfARank:
    @staticmethod
    def topology(siblings: int, packages: int) -> dict[str, str]:
        """Cores whose hardware threads are numbered far apart, on sockets that take turns."""
        cores = 8 // siblings
        tree = {}
        for cpu in range(8):
            folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
            tree[f"{folder}/core_cpus_list"] = ",".join(str(cpu % cores + cores * n) for n in range(siblings))
            tree[f"{folder}/physical_package_id"] = str(cpu % cores % packages)
        return tree

    @pytest.mark.parametrize(
        ("siblings", "packages", "ranks", "expected"),
        [
            (1, 1, 2, [{0, 1, 2, 3}, {4, 5, 6, 7}]),
            (1, 2, 2, [{0, 2, 4, 6}, {1, 3, 5, 7}]),
            (2, 1, 2, [{0, 4, 1, 5}, {2, 6, 3, 7}]),
            (2, 2, 4, [{0, 4}, {2, 6}, {1, 5}, {3, 7}]),
            (1, 1, 3, [{0, 1, 2}, {3, 4, 5}, {6, 7}]),
            # More ranks than physical cores have a hardware thread each, more than those share them.
            (2, 1, 8, [{cpu} for cpu in range(8)]),
            (2, 1, 16, [{cpu % 8} for cpu in range(16)]),
            (1, 1, 1, [set(range(8))]),
        ],
    )
    def test_whole_cores_side_by_side(
        self, tmp_path: Path, siblings: int, packages: int, ranks: int, expected: list[set[int]]
    ) -> None:
        root = write(tmp_path, self.topology(siblings, packages))
        assert [cores_of(rank, ranks, root) for rank in range(ranks)] == expected

    def test_where_the_kernel_does_not_tell(self, tmp_path: Path) -> None:
        assert [cores_of(rank, 2, tmp_path) for rank in (0, 1)] == [{0, 1, 2, 3}, {4, 5, 6, 7}]


class TestMemory:
    def test_the_machines_where_there_is_no_limit(self, tmp_path: Path) -> None:
        assert memory_limit_bytes(write(tmp_path, version_2())) == 16 * GIB

    def test_version_2_limit(self, tmp_path: Path) -> None:
        assert memory_limit_bytes(write(tmp_path, version_2(memory=str(2 * GIB)))) == 2 * GIB

    @pytest.mark.parametrize(("limit", "expected"), [(str(3 * GIB), 3 * GIB), ("9223372036854771712", 16 * GIB)])
    def test_version_1_limit(self, tmp_path: Path, limit: str, expected: int) -> None:
        files = MEMINFO | {
            "proc/self/cgroup": "4:memory:/job",
            "proc/self/mountinfo": V1_MOUNTS,
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": limit,
        }
        assert memory_limit_bytes(write(tmp_path, files)) == expected

    def test_this_machine(self) -> None:
        assert GIB // 4 < memory_limit_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert 1 <= physical_cores() <= usable_cores() <= len(os.sched_getaffinity(0))

    def test_without_proc(self, tmp_path: Path) -> None:
        assert memory_limit_bytes(tmp_path) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_how_long_cores_were_used(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "stat").write_text(
        "cpu  900 90 90 90 90 90 90 90 0 0\ncpu0 100 10 40 7000 9 8 7 6 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\n"
        "cpu10 5000 0 0 0 0 0 0 0 0 0\nintr 1 2\n"
    )
    ticks = os.sysconf("SC_CLK_TCK")
    assert busy_s({0}, tmp_path) == 150 / ticks
    assert busy_s({0, 1}, tmp_path) == 156 / ticks
    assert busy_s({0}, tmp_path / "nowhere") == 0
