"""Says what each of a class gets of this server, and whether that suffices for two ranks each.

Runs on: a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.course.class_server import (
    CLUSTERS,
    FREE_AT_START_BYTES,
    LEARNER_BYTES,
    LEARNER_FILES,
    LEARNER_SHARED_BYTES,
    PROCESS_FILES,
    RANK_BYTES,
    RANKS,
    Server,
)
from jupyter_ddl.host.preflight import SHARED_MEMORY
from jupyter_ddl.protocol.number_texts import counted, memory_size, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.protocol.gpu_allotment import GpuAllotment
    from jupyter_ddl.protocol.memory_limit import MemoryLimit


@dataclass(frozen=True)
class SiteLimits:
    """What a site allows each learner.

    Attributes:
        by: who says so, e.g. "the profile default".
        ranks: of a cluster; None for no limit.
        clusters: at a time; None for no limit.
        memory: what each rank may hold; None for no limit.
        allotment: how GPUs are given out; None where ranks take what they ask for.
    """

    by: str
    ranks: int | None = None
    clusters: int | None = None
    memory: MemoryLimit | None = None
    allotment: GpuAllotment | None = None

    @property
    def ranks_each(self) -> int:
        """How many ranks a learner may have; those of the notebooks where there is no limit."""
        return RANKS if self.ranks is None or self.clusters is None else self.ranks * self.clusters

    @property
    def suffices(self) -> bool:
        """Whether a learner may have what the notebooks take."""
        has_ranks = self.ranks is None or self.ranks >= RANKS
        return has_ranks and (self.memory is None or self.memory.most_bytes >= RANK_BYTES)


def class_text(server: Server, learners: int, limits: SiteLimits | None = None) -> str:
    """Return what each learner gets, whether it suffices, and what to do where it does not.

    Args:
        server: what it has.
        learners: how many, 1 at least.
        limits: what the site allows each; None for no limits.

    Example:
        >>> print(class_text(Server(cores=16, memory_bytes=128 * 2**30, threads=None, shared_bytes=64 * 2**30), 30))
        Each of 30, with 2 ranks, gets
          cores     0.533 of 16
          memory    4.27 GiB of 128 GiB, and takes about 2.33 GiB
          /dev/shm  2.13 GiB of 64 GiB, and takes about 0.191 MiB (32 MiB must be free at its start)
          GPUs      none
        This server carries them. By its memory it carries 54.
        While all of them train at once, 3.75 ranks share a core.
    """
    rows = list(_rows(server, learners))
    width = max(len(what) for what, _ in rows)
    lines = [f"Each of {learners:,}, with {RANKS} ranks, gets"]
    lines += [f"  {what.ljust(width)}  {text}" for what, text in rows]
    verdict = "carries" if server.carries(learners) else "does not carry"
    lines.append(f"This server {verdict} them. By its {server.bound} it carries {server.most:,}.")
    if limits is not None:
        lines += _limit_texts(server, learners, limits)
    if (ranks := learners * RANKS / server.cores) > 1:
        lines.append(f"While all of them train at once, {number(ranks)} ranks share a core.")
    allotment = None if limits is None else limits.allotment
    if allotment is not None and server.gpus:
        lines.append(_room_text(server, learners * RANKS, allotment))
    elif 0 < server.gpus < learners:
        lines.append("Give a GPU to one of them at a time: the others start with %ddl start --gpus none.")
    return "\n".join(lines)


def _rows(server: Server, learners: int) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each thing of which a learner gets a part."""
    yield "cores", f"{number(server.cores / learners)} of {server.cores}"
    yield "memory", _part(server.memory_bytes, learners, LEARNER_BYTES)
    if server.shared_bytes is not None:
        free = f" ({memory_size(FREE_AT_START_BYTES)} must be free at its start)"
        yield str(SHARED_MEMORY), _part(server.shared_bytes, learners, LEARNER_SHARED_BYTES) + free
    if server.threads is not None:
        takes = f"and takes about {server.threads_of_learner:,}"
        yield "threads", f"{server.threads // learners:,} of {server.threads:,}, {takes}"
    if server.files is not None:
        yield "open files", f"{server.files // learners:,} of {server.files:,}, and takes about {LEARNER_FILES:,}"
    if server.files_each is not None:
        takes = f"and one of them takes about {PROCESS_FILES:,}"
        yield "ulimit -n", f"{server.files_each:,} open files for each process, {takes}"
    if server.threads_each is not None:
        takes = f"and takes about {server.threads_of_learner:,}"
        yield "ulimit -u", f"{server.threads_each:,} threads with an account of one's own, {takes}"
    yield "GPUs", _gpus_text(server.gpus, learners)


def _part(all_bytes: int, learners: int, takes_bytes: int) -> str:
    share = memory_size(all_bytes / learners)
    return f"{share} of {memory_size(all_bytes)}, and takes about {memory_size(takes_bytes)}"


def _limit_texts(server: Server, learners: int, limits: SiteLimits) -> Iterator[str]:
    """Yield what the site's limits are for each, and for all together."""
    if limits.ranks is not None or limits.clusters is not None:
        size = "any number of ranks" if limits.ranks is None else counted(limits.ranks, "rank")
        many = "as many clusters as they like" if limits.clusters is None else counted(limits.clusters, "cluster")
        text = f"By {limits.by} each may have {many} of {size}, scripts included"
        is_bounded = limits.ranks is not None and limits.clusters is not None
        yield f"{text}: {limits.ranks_each * learners:,} ranks of all." if is_bounded else f"{text}."
    if limits.ranks is not None and limits.ranks < RANKS:
        yield f"That is too few: the notebooks start {RANKS} ranks."
    if limits.clusters is not None and limits.clusters < CLUSTERS:
        yield "Notebook 10 runs a script beside its ranks: that cell is refused."
    if limits.memory is None:
        return
    ranks = limits.ranks_each * learners
    held = limits.memory.most_bytes * ranks
    text = f"By {limits.memory.by} a rank may hold {memory_size(limits.memory.most_bytes)}"
    text += f", and all of theirs {memory_size(held)}"
    if held > server.memory_bytes:
        text += f": with less than {memory_size(server.memory_bytes / ranks)} for each, none takes another's"
    yield f"{text}."
    if limits.memory.most_bytes < RANK_BYTES:
        yield f"That is too little: in notebook 10 a rank holds about {memory_size(RANK_BYTES)}."


def _room_text(server: Server, ranks: int, allotment: GpuAllotment) -> str:
    room = sum(map(allotment.places, server.gpu_bytes))
    text = f"By {allotment.by} the GPUs have room for {room:,} of their {ranks:,} ranks"
    return f"{text}." if room >= ranks else f"{text}: the others start with %ddl start --gpus none."


def _gpus_text(gpus: int, learners: int) -> str:
    if gpus == 0:
        return "none"
    return f"{gpus // learners} of {gpus}" if gpus >= learners else f"{gpus} for all"
