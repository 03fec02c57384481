"""Ends a rank that holds more memory than its site allows, and says so as a fault.

On one host the lease does it, and the terminal of a script. Of ranks on several hosts each host's witness does: it
leaves a note of what the rank held beside the record of its end (`exit_records`), in which the lease finds it.

The rank is killed, and not interrupted first. A limit is there for the others on the host: a rank that grows by a
gigabyte a second would pass any grace, and may be in C code that no interrupt reaches. What a cell keeps in variables
stays after an interrupt, so that the next cell would be over the limit too. And so it ends the same way where the
system's own limit, a cgroup's, comes first.

Runs on: the lease, a witness, a script's terminal.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.deaths import Death, loss_of
from jupyter_ddl.cluster.rank_processes import RankProcesses
from jupyter_ddl.host import files
from jupyter_ddl.host.memory_watch import TICK_S
from jupyter_ddl.host.rank_limits import RankLimits
from jupyter_ddl.paths import RANKS_VARIABLE, SCRIPT_VARIABLE
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.protocol.faults import MemoryExcess
from jupyter_ddl.protocol.rank_files import APART_LOG, EXCESS, rank_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.host.memory_watch import Excess
    from jupyter_ddl.protocol.faults import Fault
    from jupyter_ddl.protocol.rank_life import RankReady


class LimitedRanks:
    """The ranks of one world on this host, and the limits that they have.

    Args:
        limits: what each may hold.
        processes: theirs, as far as they are known.
        mark: what their variables contain, and no others: the world's id, or the run's of a script.
    """

    def __init__(self, limits: RankLimits, processes: RankProcesses, mark: str) -> None:
        self._limits = limits
        self._host = socket.gethostname()
        self._watch = limits.watch(processes.known, mark)

    def due(self) -> Excess | None:
        """Return the rank that is to be ended; None where none holds too much. To be called every `TICK_S`."""
        return self._watch.due()

    def end(self, excess: Excess) -> None:
        """End a rank, with what it has started and holds memory."""
        self._watch.end(excess)

    def loss(self, excess: Excess, at_s: float) -> Fault:
        """Return the fault of ranks of which one is ended.

        Args:
            excess: what it holds.
            at_s: when, in seconds since the epoch.
        """
        death = Death(excess.rank, self._host, excess.processes[0].pid, None, None)
        return loss_of(death, at_s, excess=self.record(excess))

    def record(self, excess: Excess) -> MemoryExcess:
        """Return what a rank holds, as a fault has it."""
        return self._limits.record(excess)


class LimitOfHost:
    """The limits of the ranks on one of several hosts, for the witness there.

    Args:
        limits: what each rank may hold.
        log_dir: where ranks note their processes on this host.
        world_id: theirs.
    """

    def __init__(self, limits: RankLimits, log_dir: Path, world_id: str) -> None:
        self._log_dir = log_dir
        self._processes = RankProcesses()
        self._ranks = LimitedRanks(limits, self._processes, world_id)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> LimitOfHost | None:
        """Return that of the ranks which have these variables; None where they have none, or are a script's."""
        settings = json.loads(environment.get(RANKS_VARIABLE, "{}"))
        limits = RankLimits.in_record(settings)
        if limits is None:
            return None
        own = settings["apart"].get(socket.gethostname(), settings["folder"])
        return cls(limits, Path(own) / APART_LOG, settings["world_id"])

    def tick(self) -> None:
        """End the rank that holds too much, after a note of that. To be called every `TICK_S`."""
        # This process can open no more files, or the shared folder cannot be read: those that are known are watched.
        with suppress(OSError, ValueError):
            self._processes.know_of(self._log_dir)
        excess = self._ranks.due()
        if excess is None:
            return
        note = json.dumps(asdict(self._ranks.record(excess)))
        # Where the disk is full, the rank ends by a signal of unknown cause.
        with suppress(OSError):
            files.replace(self._log_dir / rank_file(excess.rank, EXCESS), note)
        self._ranks.end(excess)


class LimitOfScript:
    """The limits of the ranks of a script on this host, for its terminal.

    Args:
        limits: what each rank may hold.
        ready: rank -> what it reported of itself; grows as ranks do so.
        run: the script's run.
    """

    def __init__(self, limits: RankLimits, ready: Mapping[int, RankReady], run: str) -> None:
        self._ready = ready
        self._processes = RankProcesses(variable=SCRIPT_VARIABLE)
        self._ranks = LimitedRanks(limits, self._processes, run)
        self._next_s = 0.0

    def loss(self) -> Fault | None:
        """Return the fault for which a rank was ended just now, at most once every `TICK_S`; None for none."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return None
        self._next_s = now_s + TICK_S
        for ready in list(self._ready.values()):
            self._processes.know(ready.rank, ready.host, ready.pid)
        excess = self._ranks.due()
        if excess is None:
            return None
        self._ranks.end(excess)
        return self._ranks.loss(excess, time.time())


def noted_excess(log_dir: Path, rank: int) -> MemoryExcess | None:
    """Return what a witness has noted of a rank that it ended; None where it ended none.

    Args:
        log_dir: where ranks note their processes.
        rank: which.
    """
    try:
        return record_of(MemoryExcess, json.loads((log_dir / rank_file(rank, EXCESS)).read_text()))
    except (OSError, ValueError, TypeError):
        # There is none, or the disk was full.
        return None
