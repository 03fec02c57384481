"""Which rank ended first, and how, as its mpiexec tells it, and what may have ended it.

When one rank ends, mpiexec ends all: of those it names the one that was first.

Runs on: the lease, kernel.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.host.cores import ROOT, cgroup_folders
from jupyter_ddl.protocol.exit_statuses import MEANINGS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TAIL_LINES = 20
# Of what mpiexec printed, where it tells how it ended. Before that stands what ranks printed between cells.
_REPORT_CHARACTERS = 64_000


@dataclass(frozen=True)
class Death:
    """How the first rank to end did so; None for what is not known.

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


def explain_mpiexec(exit_code: int | None, output: str, first: Death | None = None) -> str:
    """Return one paragraph on why mpiexec ended: the rank that ended first, and what mpiexec printed last.

    Args:
        exit_code: mpiexec's.
        output: what it printed.
        first: the rank that was seen to end first, for where mpiexec names none.
    """
    death = read_report(output) or first
    if death is not None:
        head = describe(death)
    elif exit_code is not None and exit_code < 0:
        head = f"mpiexec was ended by {signal_text(-exit_code)}, and its ranks with it"
    else:
        head = f"mpiexec ended with status {exit_code}"
    return f"{head}\n{tail(output)}".rstrip()


def describe(death: Death) -> str:
    """Return one sentence on a rank's end."""
    who = f"rank {death.rank}" if death.rank is not None else f"the rank with PID {death.pid}"
    where = f" on {death.host}" if death.host else ""
    if death.is_unseen:
        how = f"ended: its process {death.pid} is gone, and nothing says how"
    elif death.signum is not None:
        how = f"was ended by {signal_text(death.signum)}"
    elif death.status:
        meaning = MEANINGS.get(death.status)
        how = f"exited with status {death.status}" + (f": {meaning}" if meaning else "")
    else:
        how = "ended its own process"
    return f"{who}{where} {how}"


def signal_text(signum: int) -> str:
    """Return a signal's number and what the system calls it."""
    return f"signal {signum} ({signal.strsignal(signum) or 'unknown'})"


def tail(output: str) -> str:
    """Return the last lines of what a process printed."""
    return "\n".join(output.splitlines()[-_TAIL_LINES:])


class OutOfMemoryKills:
    """Counts how often the Linux kernel ended a process for want of memory since this was made.

    Of this process's memory cgroups and of the host: a rank may have been given a cgroup of its own.

    Args:
        root: where /proc and /sys are.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._before = self._counts()

    def count(self) -> int:
        """Return how many there have been; 0 where the machine does not tell."""
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


def likely_cause(signum: int | None, oom_kills: int, last_words: Sequence[str] = ()) -> str | None:
    """Return what probably ended a rank, and what helps; None where nothing is known.

    Args:
        signum: the signal that ended it.
        oom_kills: how often the Linux kernel ended a process for want of memory meanwhile.
        last_words: the lines that the rank printed last.
    """
    said = next((line for line in reversed(last_words) if _OUT_OF_MEMORY.search(line)), None)
    if signum == signal.SIGKILL and oom_kills:
        return (
            "the Linux kernel ended it for want of memory (its out-of-memory killer struck meanwhile). Take smaller "
            "batches, fewer ranks on the host, or a job with more memory."
        )
    if said is not None:
        return f"it could get no more memory ({said.strip()[:200]!r}). Take smaller batches or raise the limit."
    if signum == signal.SIGABRT and (check := next((line for line in last_words if _CHECK.search(line)), None)):
        return f"a check in C or C++ code failed: {check.strip()[:300]!r}."
    return _CAUSES.get(signum) if signum is not None else None


_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|cannot allocate memory|MemoryError|OUT_OF_MEMORY|OOM when allocating", re.IGNORECASE
)
_CHECK = re.compile(r"check fail|assert|terminate called|what\(\):|free\(\)|corrupted|\bF\d{4} ", re.IGNORECASE)
_CAUSES: dict[int, str] = {
    signal.SIGKILL: (
        "somebody's `kill -9`, or a batch system that enforced a limit: no out-of-memory kill was counted on this host."
    ),
    signal.SIGSEGV: "a crash in C or C++ code (an invalid address), in an extension module or a ctypes call.",
    signal.SIGBUS: "a file or shared memory that became shorter than what is mapped of it: is /dev/shm or a disk full?",
    signal.SIGABRT: "C or C++ code called abort(); what it printed before stands in the rank's log.",
    signal.SIGILL: "a program built for another processor.",
    signal.SIGFPE: "a division by zero in C or C++ code.",
    signal.SIGTERM: "somebody or a batch system asked it to end.",
    signal.SIGHUP: "its terminal, or the session that it was started from, was closed.",
    signal.SIGINT: "somebody sent it SIGINT; %ddl interrupt ends a cell and keeps the ranks.",
    signal.SIGQUIT: "somebody or a batch system asked it to end at once.",
    signal.SIGUSR1: "a batch system's warning before the walltime, which ends a program that has no handler for it.",
    signal.SIGUSR2: "a batch system's warning before the walltime, which ends a program that has no handler for it.",
    signal.SIGALRM: "a timer that the cell set (`signal.alarm`, `setitimer`) and for which it had no handler.",
    signal.SIGPIPE: "C or C++ code wrote to a pipe or a connection that nobody reads any more.",
    signal.SIGXCPU: "the limit on CPU time (`ulimit -t`) was reached.",
    signal.SIGXFSZ: "the limit on a file's size (`ulimit -f`) was reached.",
}
