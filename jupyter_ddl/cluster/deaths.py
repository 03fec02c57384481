"""Finds which rank ended first and how, as mpiexec reports it, and the likely cause.

When one rank ends, mpiexec ends all, and names the first.

Runs on: the lease, kernel.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.host.cores import ROOT, cgroup_folders
from jupyter_ddl.protocol.faults import Facts, Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jupyter_ddl.protocol.faults import Cause, MemoryExcess
    from jupyter_ddl.protocol.rank_life import RankReady

_TAIL_LINES = 20
# The end of what mpiexec printed, which says how it ended. Before that stands what ranks printed between cells.
_REPORT_CHARACTERS = 64_000


@dataclass(frozen=True)
class Death:
    """How the first rank that ended did so; None for what is not known.

    Attributes:
        rank: which; None where mpiexec names only its process.
        host: where it ran.
        signum: the signal that ended it.
        status: what it exited with, where no signal did.
        is_unseen: nothing says how it ended: its process is gone.
    """

    rank: int | None
    host: str | None
    pid: int | None
    signum: int | None
    status: int | None
    is_unseen: bool = False


# What each MPI prints. Open MPI 4 and 5: MPI_Abort, a signal, an exit without MPI_Finalize, an exit status; MPICH's and
# Intel's Hydra. Lines are wrapped anywhere.
_REPORTS = (
    r"MPI_ABORT was invoked on rank (?P<rank>\d+) .{0,500}?\berrorcode:?\s+(?P<status>\d+)",
    r"process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+)\s+exited\s+on\s+signal (?P<signum>\d+)",
    r"process rank (?P<rank>\d+) with PID (?P<pid>\d+) on\s+node (?P<host>\S+)\s+(?:calling|exiting)",
    r"Process name: \[\S+,\s*(?P<rank>\d+)\]\s+Exit code:\s+(?P<status>\d+)",
    r"(?:RANK (?P<rank>\d+) )?PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)\s*=\s*KILLED BY SIGNAL: (?P<signum>\d+)",
    r"PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)\s*=\s*EXIT CODE: (?P<status>\d+)(?:.{0,99}\(signal (?P<signum>\d+)\))?",
)


# Open MPI 5, of its daemon on a host: it is gone, or its ssh is.
_LOST_HOSTS = (
    r"lost\s+communication\s+with\s+a\s+remote\s+daemon.{0,500}?Remote\s+daemon:\s+\S+\s+on\s+node\s+(?P<host>\S+)",
    r"A\s+daemon\s+failed\s+to\s+report\s+back.{0,500}?Remote\s+host:\s+(?P<host>\S+)",
)


def read_report(output: str) -> Death | None:
    """Return what mpiexec printed of the rank that ended first, or None where it named none."""
    output = output[-_REPORT_CHARACTERS:]
    for report in _REPORTS:
        found = re.search(report, output, re.DOTALL | re.IGNORECASE)
        if found:
            named = found.groupdict()
            number = {name: int(named[name]) for name in ("rank", "pid", "signum", "status") if named.get(name)}
            return Death(
                number.get("rank"),
                named.get("host"),
                number.get("pid") or None,
                number.get("signum"),
                None if "signum" in number else number.get("status"),
            )
    return None


def loss_of(
    death: Death, at_s: float, *, oom_kills: int = 0, output: str = "", excess: MemoryExcess | None = None
) -> Fault:
    """Return the fault of ranks that are lost, of which one is known to have ended first.

    Args:
        death: how that one ended.
        at_s: when, seconds since the epoch.
        oom_kills: how often the Linux kernel ended a process for lack of memory meanwhile.
        output: what mpiexec printed last, where that says more.
        excess: the memory for which it was ended; None where it was not.
    """
    cause = likely_cause(death.signum, oom_kills)[0] if excess is None else "memory limit"
    facts = Facts(
        pid=death.pid,
        signum=death.signum,
        status=death.status,
        is_unseen=death.is_unseen,
        oom_kills=oom_kills,
        excess=excess,
        output=output,
    )
    return Fault("lost", "rank", () if death.rank is None else (death.rank,), death.host, at_s, cause, facts=facts)


def named_by(ending: Fault, ranks: Mapping[int, RankReady]) -> RankReady | None:
    """Return the rank that an ending names, by its number, or where only its process is known by that.

    Ranks on several hosts may have the same PID.

    Args:
        ending: of a rank.
        ranks: those that were ready, by their numbers.
    """
    if ending.ranks:
        return ranks.get(ending.ranks[0])
    same = [ready for ready in ranks.values() if ready.pid == ending.facts.pid]
    return next((ready for ready in same if ready.host == ending.host), same[0] if len(same) == 1 else None)


def mpiexec_loss(
    exit_code: int | None, output: str, at_s: float, *, first: Death | None = None, oom_kills: int = 0
) -> Fault:
    """Return why mpiexec ended: the rank that ended first, and what mpiexec printed last.

    Args:
        exit_code: mpiexec's.
        output: what it printed.
        at_s: when, seconds since the epoch.
        first: the rank that was seen to end first, used where mpiexec names none and ended by itself: where a signal
            ended mpiexec, its ranks ended with it, and one of them may have been seen sooner.
        oom_kills: how often the Linux kernel ended a process for lack of memory meanwhile.
    """
    lost_host = _lost_host(output[-_REPORT_CHARACTERS:])
    if lost_host is not None:
        return Fault("lost", "host", host=lost_host, at_s=at_s, facts=Facts(output=tail(output)))
    signum = -exit_code if exit_code is not None and exit_code < 0 else None
    death = read_report(output) or (first if signum is None else None)
    if death is not None:
        return loss_of(death, at_s, oom_kills=oom_kills, output=tail(output))
    facts = Facts(
        signum=signum,
        status=exit_code if signum is None else None,
        oom_kills=oom_kills,
        output=tail(output),
    )
    return Fault("lost", "mpiexec", at_s=at_s, facts=facts)


def _lost_host(output: str) -> str | None:
    """Return the host with whose daemon mpiexec lost contact, where it says so."""
    found = (re.search(pattern, output, re.DOTALL) for pattern in _LOST_HOSTS)
    return next((lost["host"] for lost in found if lost is not None), None)


def tail(output: str) -> str:
    """Return the last lines of what a process printed."""
    return "\n".join(output.splitlines()[-_TAIL_LINES:]).rstrip()


class OutOfMemoryKills:
    """Counts how often the Linux kernel ended a process for lack of memory since this was made.

    It counts in this process's memory cgroups and on the host: a rank may have a cgroup of its own.

    Args:
        root: where /proc and /sys are.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._before = self._counts()

    def count(self) -> int:
        """Return how many there have been; 0 where the machine does not report it."""
        now = self._counts()
        return max((after - before for before, after in zip(self._before, now, strict=True)), default=0)

    def _counts(self) -> list[int]:
        files = [self._root / "proc/vmstat"]
        for folder in cgroup_folders("memory", self._root):
            files += [folder / "memory.events", folder / "memory.oom_control"]
        return [_counter(file) for file in files]


def _counter(file: Path) -> int:
    try:
        text = file.read_text()
    except OSError:
        return 0
    found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def likely_cause(signum: int | None, oom_kills: int, last_words: Sequence[str] = ()) -> tuple[Cause | None, str]:
    """Return what probably ended a rank, None where nothing is known; and the line that says so, where one does.

    Args:
        signum: the signal that ended it.
        oom_kills: how often the Linux kernel ended a process for lack of memory meanwhile.
        last_words: the lines that the rank printed last.
    """
    if signum == signal.SIGKILL and oom_kills:
        return "out of memory killer", ""
    said = next((line for line in reversed(last_words) if _OUT_OF_MEMORY.search(line)), None)
    if said is not None:
        return "allocation", said.strip()[:200]
    if signum == signal.SIGABRT and (sizes := next(filter(None, map(_SIZES.search, last_words)), None)):
        return "different sizes", sizes[0]
    if signum == signal.SIGABRT and (check := next((line for line in last_words if _CHECK.search(line)), None)):
        return "failed check", check.strip()[:300]
    return (None if signum is None else "signal"), ""


_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|cannot allocate memory|MemoryError|OUT_OF_MEMORY|OOM when allocating", re.IGNORECASE
)
# Source: torch 2.13, third_party/gloo/gloo/transport/tcp/pair.cc
_SIZES = re.compile(r"op\.preamble\.length <= op\.nbytes\. \d{1,20} vs \d{1,20}")
_CHECK = re.compile(r"check fail|assert|terminate called|what\(\):|free\(\)|corrupted|\bF\d{4} ", re.IGNORECASE)
