"""Says what each of a class gets of this server, and whether that suffices for two ranks each.

Runs on: a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.host.cores import ROOT, usable_cores
from jupyter_ddl.host.free_memory import available_bytes
from jupyter_ddl.host.free_threads import free_by_cgroups
from jupyter_ddl.host.topology import list_gpus
from jupyter_ddl.protocol.number_texts import memory_size, number

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.gpu_allotment import GpuAllotment
    from jupyter_ddl.protocol.memory_limit import MemoryLimit

RANKS = 2
# What a kernel, its cluster, two ranks of TensorFlow's and JupyterLab take at most in notebook 10, the largest; what
# they share counts once: docs/teaching.md, "Prepare".
LEARNER_BYTES = 2_500_000_000
# 107 on two cores. TensorFlow has two pools on each rank, with a thread for each of its cores.
LEARNER_THREADS, THREADS_PER_CORE = 103, 2


@dataclass(frozen=True)
class Server:
    """What a server has for a class.

    Attributes:
        cores: logical cores that processes may keep busy.
        memory_bytes: that is free, or can be freed.
        threads: how many more its cgroup allows; None without a limit.
        gpu_bytes: the memory of each GPU, MIG's parts each for one.
    """

    cores: int
    memory_bytes: int
    threads: int | None
    gpu_bytes: tuple[int, ...] = ()

    @property
    def gpus(self) -> int:
        """How many GPUs."""
        return len(self.gpu_bytes)

    @property
    def most(self) -> int:
        """How many learners its memory and its threads suffice for."""
        return min(self._carried().values())

    @property
    def bound(self) -> str:
        """What it has the least of: "memory", or "cgroup's threads"."""
        carried = self._carried()
        return min(carried, key=carried.__getitem__)

    def carries(self, learners: int) -> bool:
        """Return whether it suffices for two ranks of each learner at once."""
        return learners <= self.most

    def _carried(self) -> dict[str, int]:
        carried = {"memory": self.memory_bytes // LEARNER_BYTES}
        if self.threads is not None:
            carried["cgroup's threads"] = self.threads // (LEARNER_THREADS + THREADS_PER_CORE * self.cores)
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
    return Server(usable_cores(root), available_bytes(root), free_by_cgroups(root), gpu_bytes)


def class_text(
    server: Server, learners: int, limit: MemoryLimit | None = None, allotment: GpuAllotment | None = None
) -> str:
    """Return what each learner gets, whether it suffices, and what to do where it does not.

    Args:
        server: what it has.
        learners: how many, 1 at least.
        limit: what each rank may hold; None for no limit.
        allotment: how the site gives GPUs out; None where ranks take what they ask for.

    Example:
        >>> print(class_text(Server(cores=16, memory_bytes=128 * 2**30, threads=None), 30))
        Each of 30, with 2 ranks, gets
          cores   0.533 of 16
          memory  4.27 GiB of 128 GiB, and takes about 2.33 GiB
          GPUs    none
        This server carries them. By its memory it carries 54.
        While all of them train at once, 3.75 ranks share a core.
    """
    share, memory = memory_size(server.memory_bytes / learners), memory_size(server.memory_bytes)
    verdict = "carries" if server.carries(learners) else "does not carry"
    lines = [
        f"Each of {learners:,}, with {RANKS} ranks, gets",
        f"  cores   {number(server.cores / learners)} of {server.cores}",
        f"  memory  {share} of {memory}, and takes about {memory_size(LEARNER_BYTES)}",
        f"  GPUs    {_gpus_text(server.gpus, learners)}",
        f"This server {verdict} them. By its {server.bound} it carries {server.most:,}.",
    ]
    if limit is not None:
        held, most = limit.most_bytes * RANKS * learners, server.memory_bytes / (RANKS * learners)
        text = f"By {limit.by} a rank may hold {memory_size(limit.most_bytes)}, and all of theirs {memory_size(held)}"
        too_much = held > server.memory_bytes
        lines.append(
            f"{text}: with less than {memory_size(most)} for each, none takes another's." if too_much else f"{text}."
        )
    if (ranks := learners * RANKS / server.cores) > 1:
        lines.append(f"While all of them train at once, {number(ranks)} ranks share a core.")
    if allotment is not None and server.gpus:
        lines.append(_room_text(server, learners * RANKS, allotment))
    elif 0 < server.gpus < learners:
        lines.append("Give a GPU to one of them at a time: the others start with %ddl start --gpus none.")
    return "\n".join(lines)


def _room_text(server: Server, ranks: int, allotment: GpuAllotment) -> str:
    room = sum(map(allotment.places, server.gpu_bytes))
    text = f"By {allotment.by} the GPUs have room for {room:,} of their {ranks:,} ranks"
    return f"{text}." if room >= ranks else f"{text}: the others start with %ddl start --gpus none."


def _gpus_text(gpus: int, learners: int) -> str:
    if gpus == 0:
        return "none"
    return f"{gpus // learners} of {gpus}" if gpus >= learners else f"{gpus} for all"
