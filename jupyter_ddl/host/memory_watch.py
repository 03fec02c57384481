"""Finds the rank that holds more memory than it may, of its host or of GPUs, with all that it has started.

Counted is what a process really has: its resident memory that no file backs, and the shared memory that it maps. Of a
page that several processes share each has its part, so that it counts once. Address space that nothing was written to
(TensorFlow and CUDA reserve much of it), mapped files, whose pages the system takes back, and what was swapped out do
not count. Linux says it exactly by walking a process's page tables, which costs time and keeps the process from
mapping memory meanwhile: so it is read only where the processes' resident memory, which Linux has at hand and which is
no less but for some pages a core, comes near the limit.

A process belongs to the rank that it descends from. One whose parents have ended has another parent by then: it
belongs to the rank that the variables name with which it was started.

Runs on: lease, witness, a script's terminal and the relays beside its ranks.
"""

from __future__ import annotations

import mmap
import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

TICK_S = 1.0
_PROC = Path("/proc")
# Source: proc(5), /proc/PID/stat: the fields after the command's name, which is in parentheses and may hold anything.
_STATE, _PARENT, _STARTED, _RESIDENT_PAGES = 0, 1, 19, 21
_ENDED = (b"Z", b"X")
# It has some three hundred.
_STAT_BYTES = 4096
# Of the limit: below it resident memory is not asked for exactly.
_NEAR = 0.9
# Exact figures of all ranks take at most this share of a core, where their resident memory does not grow.
_EXACT_SHARE = 0.05
# What holds less is left to what ends all processes: our shell beside a rank, which completes its log, is one.
_SMALL_BYTES = 32 * 2**20
# As Open MPI, Hydra, PMIx and jsrun name the number of a rank.
_RANK_NAMES = (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"PMIX_RANK", b"JSM_NAMESPACE_RANK")
_EXACT = re.compile(rb"^(Pss|Pss_Anon|Pss_Shmem): +(\d+) kB$", re.MULTILINE)
_COUNTED = re.compile(rb"^(?:RssAnon|RssShmem):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Process:
    """A process of this user.

    Attributes:
        started: when, in clock ticks since boot: another process with the same PID has another.
        resident_bytes: with mapped files, and all of each page that it shares.
    """

    pid: int
    started: int
    parent: int
    resident_bytes: int


@dataclass(frozen=True)
class Excess:
    """A rank that holds more than it may.

    Attributes:
        rank: its number.
        held_bytes: what it holds, with all that it has started.
        processes: the rank's own first.
        on_gpu: it is the memory of GPUs.
    """

    rank: int
    held_bytes: int
    processes: tuple[Process, ...]
    on_gpu: bool = False


@dataclass(frozen=True)
class GpuLimit:
    """What each rank may hold on GPUs.

    Attributes:
        most_bytes: in all.
        held_bytes: returns PID -> what it holds there.
    """

    most_bytes: int
    held_bytes: Callable[[], Mapping[int, int]]


@dataclass(frozen=True)
class _Exact:
    """What was known exactly of a rank's memory, and its resident memory then."""

    held_bytes: int
    resident_bytes: int


class MemoryWatch:
    """Watches the memory of one world's ranks on this host, for one thread at a time.

    Args:
        most_bytes: what each rank may hold; None for no limit.
        ranks: returns rank -> its process's PID and start, of those that live here.
        mark: what the variables of the ranks, and of no others, contain.
        proc: where Linux reports processes.
        now_s: returns the time in seconds.
        on_gpu: what each may hold of GPUs; None for no limit.

    Example:
        >>> watch = MemoryWatch(8 * 10**9, processes.known, "1f2e3d4c")
        >>> watch.due()
    """

    def __init__(
        self,
        most_bytes: int | None,
        ranks: Callable[[], Mapping[int, tuple[int, int]]],
        mark: str,
        proc: Path = _PROC,
        now_s: Callable[[], float] = time.monotonic,
        on_gpu: GpuLimit | None = None,
    ) -> None:
        self._most_bytes = most_bytes
        self._on_gpu = on_gpu
        self._ranks = ranks
        self._mark = mark.encode()
        self._proc = proc
        self._now_s = now_s
        self._exact: dict[int, _Exact] = {}
        # How long exact figures took at this look, and when they are due again.
        self._took_s = self._again_s = 0.0
        # Process, by its PID and start -> the rank that its variables name. They are read once.
        self._named: dict[tuple[int, int], int | None] = {}

    def due(self) -> Excess | None:
        """Return the rank that holds the most of those that hold too much; None where none does.

        To be called every `TICK_S`.
        """
        ranks = self._ranks()
        if not ranks:
            return None
        try:
            there = _own_processes(self._proc)
        except OSError:
            # This process can open no more files: nothing is known now.
            return None
        self._took_s = 0.0
        by_rank = self._by_rank(ranks, there)
        found = [*self._over_on_host(by_rank), *self._over_on_gpu(by_rank)]
        if self._took_s:
            self._again_s = self._now_s() + self._took_s / _EXACT_SHARE
        return max(found, key=lambda excess: excess.held_bytes, default=None)

    def _over_on_host(self, by_rank: Mapping[int, list[Process]]) -> Iterator[Excess]:
        if self._most_bytes is None:
            return
        for rank, processes in by_rank.items():
            if (held_bytes := self._held_bytes(rank, processes, self._most_bytes)) > self._most_bytes:
                yield Excess(rank, held_bytes, tuple(processes))

    def _over_on_gpu(self, by_rank: Mapping[int, list[Process]]) -> Iterator[Excess]:
        if self._on_gpu is None:
            return
        held = self._on_gpu.held_bytes()
        for rank, (own, *others) in by_rank.items():
            holding = [process for process in others if process.pid in held]
            held_bytes = sum(held.get(process.pid, 0) for process in (own, *holding))
            if held_bytes > self._on_gpu.most_bytes:
                yield Excess(rank, held_bytes, (own, *holding), on_gpu=True)

    def end(self, excess: Excess) -> None:
        """Kill a rank's process, and what it has started and holds memory.

        At once: a rank that still grows would pass any grace, and what its cell keeps in variables stays after an
        interrupt, so that the next cell would pass the limit again.
        """
        own, *others = excess.processes
        for process in (own, *(one for one in others if excess.on_gpu or one.resident_bytes >= _SMALL_BYTES)):
            _kill(process, self._proc)

    def _by_rank(self, ranks: Mapping[int, tuple[int, int]], there: Mapping[int, Process]) -> dict[int, list[Process]]:
        """Return each rank's processes, its own first."""
        children: dict[int, list[Process]] = {}
        for process in there.values():
            children.setdefault(process.parent, []).append(process)
        found, placed = {}, {os.getpid()}
        for rank, (pid, started) in ranks.items():
            own = there.get(pid)
            if own is None or own.started != started:
                continue
            found[rank] = list(_with_descendants(own, children))
            placed.update(process.pid for process in found[rank])
            # mpiexec may have such variables too, where it runs in a job of MPI's itself.
            placed.update(_ancestors(own, there))
        for process in there.values():
            if process.pid not in placed and (rank_named := self._rank_named_by(process)) in found:
                found[rank_named].append(process)
        self._named = {key: rank for key, rank in self._named.items() if key[0] in there}
        return found

    def _rank_named_by(self, process: Process) -> int:
        """Return the rank that a process's variables name; -1 where they name none of this world."""
        key = process.pid, process.started
        if key not in self._named:
            self._named[key] = _named_in(self._proc / str(process.pid) / "environ", self._mark)
        rank = self._named[key]
        return -1 if rank is None else rank

    def _held_bytes(self, rank: int, processes: Iterable[Process], most_bytes: int) -> int:
        """Return what a rank's processes hold, or no less, where that is within the limit."""
        processes = tuple(processes)
        resident_bytes = sum(process.resident_bytes for process in processes)
        if resident_bytes <= _NEAR * most_bytes:
            return resident_bytes
        began_s, known = self._now_s(), self._exact.get(rank)
        if known is not None and began_s < self._again_s:
            grown_bytes = resident_bytes - known.resident_bytes
            if known.held_bytes + grown_bytes <= most_bytes:
                return known.held_bytes
        held_bytes = sum(_held_bytes(self._proc / str(process.pid)) for process in processes)
        self._exact[rank] = _Exact(held_bytes, resident_bytes)
        self._took_s += self._now_s() - began_s
        return held_bytes


def _own_processes(proc: Path) -> dict[int, Process]:
    """Return this user's processes, by their PIDs; those that have ended do not count."""
    user, found = os.geteuid(), {}
    with os.scandir(proc) as entries:
        for entry in entries:
            if not entry.name.isdecimal():
                continue
            # It may end meanwhile.
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if entry.stat().st_uid == user and (process := _process(int(entry.name), proc)) is not None:
                    found[process.pid] = process
    return found


def _process(pid: int, proc: Path) -> Process | None:
    """Return what Linux says of a process; None where it has ended, and its status was not collected."""
    # All own processes are read each time: a file object takes longer.
    descriptor = os.open(f"{proc}/{pid}/stat", os.O_RDONLY)
    try:
        fields = os.read(descriptor, _STAT_BYTES).rpartition(b")")[2].split()
    finally:
        os.close(descriptor)
    if fields[_STATE] in _ENDED:
        return None
    return Process(pid, int(fields[_STARTED]), int(fields[_PARENT]), int(fields[_RESIDENT_PAGES]) * mmap.PAGESIZE)


def _with_descendants(process: Process, children: Mapping[int, Iterable[Process]]) -> Iterator[Process]:
    yield process
    for child in children.get(process.pid, ()):
        yield from _with_descendants(child, children)


def _ancestors(process: Process, there: Mapping[int, Process]) -> Iterator[int]:
    while (parent := there.get(process.parent)) is not None and parent.pid != process.pid:
        yield parent.pid
        process = parent


def _named_in(environ: Path, mark: bytes) -> int | None:
    """Return the rank that a process's variables name; None where they are not those of a world."""
    try:
        variables = environ.read_bytes()
    except OSError:
        # It has ended, or runs with other rights than ours.
        return None
    if mark not in variables:
        return None
    values = dict(variable.partition(b"=")[::2] for variable in variables.split(b"\0"))
    named = next((values[name] for name in _RANK_NAMES if name in values), b"")
    return int(named) if re.fullmatch(rb"\d{1,9}", named) else None


def _held_bytes(folder: Path) -> int:
    """Return what one process holds; of a page that it shares its part.

    Linux before 5.9 does not tell files apart there: then they count, unless all of its own pages are less.
    """
    try:
        sizes = {name: int(kib) * 1024 for name, kib in _EXACT.findall((folder / "smaps_rollup").read_bytes())}
        if b"Pss_Anon" in sizes:
            return sizes[b"Pss_Anon"] + sizes.get(b"Pss_Shmem", 0)
    except OSError:
        # Before 4.14 there is no such file; or the process has ended, or has other rights than ours.
        sizes = {}
    with suppress(OSError):
        counted_bytes = sum(int(kib) * 1024 for kib in _COUNTED.findall((folder / "status").read_bytes()))
        return min(counted_bytes, sizes.get(b"Pss", counted_bytes))
    return 0


def _kill(process: Process, proc: Path) -> None:
    """Kill a process, and no other that has its PID by now."""
    try:
        # No other process can get this one's descriptor.
        descriptor: int | None = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        # Linux before 5.3, or a Python that was built there; or the process has ended.
        descriptor = None
    try:
        there = _process(process.pid, proc)
        if there is None or there.started != process.started:
            return
        if descriptor is None:
            os.kill(process.pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        # It has ended.
        return
    finally:
        if descriptor is not None:
            os.close(descriptor)
