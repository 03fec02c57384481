"""Reads what a server has for a class, and counts the learners that each of it suffices for.

Runs on: a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.host import free_files
from jupyter_ddl.host.cores import ROOT, usable_cores
from jupyter_ddl.host.free_memory import available_bytes
from jupyter_ddl.host.free_threads import free_by_cgroups, free_on_machine, limit_of_user
from jupyter_ddl.host.preflight import SEGMENT_BYTES, SHARED_MEMORY
from jupyter_ddl.host.topology import list_gpus

if TYPE_CHECKING:
    from pathlib import Path

# Of a cluster, and how many of these the notebooks have at a time, a script being one.
RANKS, CLUSTERS = 2, 2
# What a kernel, its cluster, two ranks of TensorFlow's and JupyterLab take at most in notebook 10, the largest; what
# they share counts once: docs/teaching.md, "Prepare".
LEARNER_BYTES = 2_500_000_000
# What a rank holds of that in notebook 10, as a site's `memory_per_rank` counts it: 1.32 GB resident, less 0.46 GB of
# mapped libraries (measured in 08).
RANK_BYTES = 900_000_000
# 470 on two cores, while notebook 07 compares TensorFlow's strategies, whose servers have threads of their own; 112
# elsewhere. TensorFlow has two pools on each rank, with a thread for each of its cores.
LEARNER_THREADS, THREADS_PER_CORE = 466, 2
# What all of a learner's processes have open, and one of them at most (the kernel, or ipyparallel's controller); and
# what MPI takes of /dev/shm. A rank's segment there has 16 MiB, of which little is written to, but that much must be
# free when it starts. Measured in notebooks 01, 06 to 08 and 10 on two cores, 2026-11-30: docs/teaching.md, "Prepare".
LEARNER_FILES, PROCESS_FILES = 600, 100
LEARNER_SHARED_BYTES = 200_000
FREE_AT_START_BYTES = RANKS * SEGMENT_BYTES


@dataclass(frozen=True)
class Server:
    """What a server has for a class.

    Attributes:
        cores: logical cores that processes may keep busy.
        memory_bytes: that is free, or can be freed.
        threads: how many more its cgroup, or the machine, allows; None without a limit.
        gpu_bytes: the memory of each GPU, MIG's parts each for one.
        shared_bytes: that is free of /dev/shm; None where there is none.
        files: how many more all processes may open; None without a limit.
        files_each: how many each process may open; None without a limit.
        threads_each: how many each user may have; None without a limit.
    """

    cores: int
    memory_bytes: int
    threads: int | None
    gpu_bytes: tuple[int, ...] = ()
    shared_bytes: int | None = None
    files: int | None = None
    files_each: int | None = None
    threads_each: int | None = None

    @property
    def gpus(self) -> int:
        """How many GPUs."""
        return len(self.gpu_bytes)

    @property
    def threads_of_learner(self) -> int:
        """How many threads a learner's processes have here."""
        return LEARNER_THREADS + THREADS_PER_CORE * self.cores

    @property
    def most(self) -> int:
        """How many learners it suffices for."""
        return min(self._carried().values())

    @property
    def bound(self) -> str:
        """What it has the least of: "memory", "threads", "/dev/shm", or a limit."""
        carried = self._carried()
        return min(carried, key=carried.__getitem__)

    def carries(self, learners: int) -> bool:
        """Return whether it suffices for two ranks of each learner at once."""
        return learners <= self.most

    def _carried(self) -> dict[str, int]:
        carried = {"memory": self.memory_bytes // LEARNER_BYTES}
        if self.threads is not None:
            carried["threads"] = self.threads // self.threads_of_learner
        if self.shared_bytes is not None:
            # The last to start needs room too.
            carried[str(SHARED_MEMORY)] = max(0, 1 + (self.shared_bytes - FREE_AT_START_BYTES) // LEARNER_SHARED_BYTES)
        if self.files is not None:
            carried["open files"] = self.files // LEARNER_FILES
        if self.files_each is not None and self.files_each < PROCESS_FILES:
            carried["limit of open files"] = 0
        if self.threads_each is not None and self.threads_each < self.threads_of_learner:
            carried["limit of threads"] = 0
        return carried


def this_server(root: Path = ROOT) -> Server:
    """Return what this server has at the moment.

    Args:
        root: stands for / in tests.
    """
    try:
        gpu_bytes = tuple(gpu.memory_total_bytes for gpu in list_gpus())
    except ClusterError:
        # NVML does not answer: `jupyter ddl doctor` says why.
        gpu_bytes = ()
    threads = [free for free in (free_by_cgroups(root), free_on_machine(root)) if free is not None]
    return Server(
        usable_cores(root),
        available_bytes(root),
        min(threads, default=None),
        gpu_bytes,
        free_files.free_shared_memory_bytes(root),
        free_files.free_files(root),
        free_files.open_files_limit(),
        limit_of_user(),
    )
