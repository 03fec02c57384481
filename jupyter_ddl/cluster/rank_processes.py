"""Finds which of a cluster's processes on this host have ended, as Linux reports it, whatever mpiexec does.

Runs on: the lease, kernel.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster.deaths import Death
from jupyter_ddl.paths import RANKS_VARIABLE
from jupyter_ddl.protocol.rank_files import PROCESS, rank_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PROC = Path("/proc")
# Source: proc(5), /proc/PID/stat: the fields after the command's name, which is in parentheses and may hold anything.
_STATE, _STARTED, _EXIT_CODE = 0, 19, 49


@dataclass(frozen=True)
class _Seen:
    """What Linux reports of a process.

    Attributes:
        is_dead: it has ended, and its parent has not collected its status.
        started: when, in clock ticks since boot: another process with the same PID has another.
        wait_status: how it ended, as wait(2) encodes it, where it has.
    """

    is_dead: bool
    started: int
    wait_status: int


def _look(pid: int, proc: Path) -> _Seen | None:
    """Return what is known of a process; None where no process has that PID."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return _Seen(fields[_STATE] in "ZX", int(fields[_STARTED]), int(fields[_EXIT_CODE]))


class RankProcesses:
    """The rank processes of one cluster that have been seen alive on this host.

    One that was never seen does not count as ended: it may be on another host, or in another PID namespace.

    Args:
        proc: where Linux reports processes.
        variable: which the ranks have, and other processes do not.
    """

    def __init__(self, proc: Path = _PROC, variable: str = RANKS_VARIABLE) -> None:
        self._proc = proc
        self._variable = variable
        self._host = socket.gethostname()
        self._known: dict[int, tuple[int, int]] = {}
        self._passed_over: set[int] = set()

    def know(self, rank: int, host: str, pid: int) -> None:
        """Watch a rank's process from now on, where it lives on this host."""
        if rank in self._known or rank in self._passed_over:
            return
        seen = _look(pid, self._proc) if host == self._host and self._is_rank(pid) else None
        if seen is None:
            self._passed_over.add(rank)
        else:
            self._known[rank] = pid, seen.started

    def know_of(self, log_dir: Path) -> None:
        """Watch the processes that the ranks have noted in their cluster's folder."""
        for note in log_dir.glob(rank_file("*", PROCESS)):
            said: dict[str, Any] = json.loads(note.read_text())
            self.know(said["rank"], said["host"], said["pid"])

    def known(self) -> dict[int, tuple[int, int]]:
        """Return the ranks that are watched, each with its process's PID and start in clock ticks since boot."""
        return dict(self._known)

    def gone(self) -> list[Death]:
        """Return the ranks whose process has ended, and how, where Linux still knows it."""
        try:
            return [death for rank in sorted(self._known) if (death := self._death(rank)) is not None]
        except OSError:
            # This process can open no more files: nothing is known of any rank now.
            return []

    def _is_rank(self, pid: int) -> bool:
        """Return whether a process is a rank: a PID of another namespace may be any process's in this one."""
        try:
            return f"{self._variable}=".encode() in (self._proc / str(pid) / "environ").read_bytes()
        except OSError:
            return False

    def _death(self, rank: int) -> Death | None:
        pid, started = self._known[rank]
        seen = _look(pid, self._proc)
        if seen is None or seen.started != started:
            return Death(rank, self._host, pid, None, None, is_unseen=True)
        if not seen.is_dead:
            return None
        status = seen.wait_status
        if os.WIFSIGNALED(status):
            return Death(rank, self._host, pid, os.WTERMSIG(status), None)
        return Death(rank, self._host, pid, None, os.WEXITSTATUS(status))


class DeathWatch:
    """Reports a rank's end within some seconds, whatever mpiexec does.

    mpiexec knows best how a rank ended, but reports it only when the rank's output has ended too. A process that the
    rank left behind may hold the output open, so such processes are ended. Where mpiexec then reports nothing, for
    example because it is stopped, this does, from what Linux reports.

    Args:
        processes: the ranks'.
        log_dir: where ranks record their processes.
        left_behind: returns the processes whose own parents have ended, which are children of this one by now.
        tell: called once with the rank that was found first, where mpiexec has reported nothing.
    """

    TICK_S = 0.5

    def __init__(
        self,
        processes: RankProcesses,
        log_dir: Path,
        left_behind: Callable[[], Iterable[int]],
        tell: Callable[[Death], None],
    ) -> None:
        self._processes = processes
        self._log_dir = log_dir
        self._left_behind = left_behind
        self._tell = tell
        self._ticks = 0
        self.first: Death | None = None

    def tick(self) -> None:
        """Check once. Call it every TICK_S."""
        self._processes.know_of(self._log_dir)
        gone = self._processes.gone()
        if not gone:
            return
        # Linux reports how it ended only until mpiexec has collected its status.
        self.first = self.first or gone[0]
        self._ticks += 1
        if self._ticks in _SIGNALS:
            for pid in self._left_behind():
                _signal(pid, _SIGNALS[self._ticks])
        if self._ticks == (_TOLD_TICKS_COLLECTED if self.first.is_unseen else _TOLD_TICKS):
            self._tell(self.first)


# At the first tick mpiexec may be about to report all itself.
_SIGNALS = {2: signal.SIGTERM, 3: signal.SIGKILL}
_TOLD_TICKS = 6
# mpiexec has collected the rank's status: it alone knows how the rank ended, and a crowded machine delays its report.
_TOLD_TICKS_COLLECTED = 8


def _signal(pid: int, signum: signal.Signals) -> None:
    """Signal a child of this process, whose PID cannot be another process's."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        # It has ended, and its status was collected.
        return
