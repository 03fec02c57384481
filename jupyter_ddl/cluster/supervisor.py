"""Watches a cluster: whether its processes live, and its ranks answer.

The lease reports how the cluster ended, at once; where it reports nothing, since it is stopped itself, a rank on this
host whose process has ended is lost nevertheless. While a cell runs, a rank that sent nothing for some seconds is asked
to answer, once a second; then what is known of its process is reported. A rank that does not answer is not dead: it may
be stopped, or in C code that holds Python's lock.

Runs on: kernel.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import psutil

from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster.core_time import CoreTime
from jupyter_ddl.cluster.deaths import loss_of, named_by
from jupyter_ddl.cluster.folder import ending_of
from jupyter_ddl.cluster.jobs_known import job_of
from jupyter_ddl.cluster.lost_hosts import lost_host
from jupyter_ddl.cluster.rank_processes import RankProcesses
from jupyter_ddl.cluster.remote_lease import RemoteLease
from jupyter_ddl.host.lost_after import host_lost_after_s
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.launch.remote_processes import GONE, SILENT, RemoteProcesses
from jupyter_ddl.protocol.faults import Facts, Fault, RankProcess
from jupyter_ddl.protocol.rank_life import RankLost, RankSilent
from jupyter_ddl.protocol.requests import Ping

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Container

    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.faults import ProcessState
    from jupyter_ddl.protocol.rank_life import RankReady
    from jupyter_ddl.protocol.transport import RankTransport

_TICK_S = 1.0
# Ranks send samples once a second: one that sent nothing for this long is asked.
_ASK_S = 3.0
SILENT_S = 10.0
# The lease, which knows more, reports a rank that has ended within 4 s.
_GONE_S = 4.75


class Supervisor:
    """Watches one cluster.

    Args:
        folder: the cluster's.
        lease: its lease, where this kernel started it.
        ranks: rank -> its RankReady.
        transport: asks whether they answer.
        tell: called with RankLost and RankSilent, in a thread of ours.
        warm: the ranks that have imported TensorFlow. The others are silent because of it, which is not reported.
    """

    def __init__(
        self,
        folder: ClusterFolder,
        lease: subprocess.Popen[bytes] | None,
        ranks: dict[int, RankReady],
        transport: RankTransport,
        tell: Callable[[Event], None],
        warm: Container[int],
    ) -> None:
        self._folder = folder
        self._lease = lease
        self._world_id = folder.settings()["world_id"]
        self._ranks = ranks
        self._transport = transport
        self._tell = tell
        self._warm = warm
        self._core_time = CoreTime()
        self._lock = threading.Lock()
        self._heard_s: dict[int, float] = {}
        self._silent_since_s: dict[int, float] = {}
        self._attendant: Supervised | None = None
        self._closed = threading.Event()
        self._processes = RankProcesses()
        self._hosts: dict[str, str] = folder.settings().get("hosts", {})
        self._elsewhere = RemoteProcesses(folder.spec().place, self._hosts, self._pids_on, self._closed)
        self._lost_after_s = host_lost_after_s()
        self._gone_since_s: float | None = None
        self._remote: RemoteLease | None = None
        if lease is None and folder.is_elsewhere:
            self._remote = RemoteLease(folder, self._world_id, *job_of(folder.spec()))
        self._is_asked = False
        self._watcher = Supervised(self._watch, "jupyter_ddl lease watch", self._on_unwatched)

    def start(self) -> None:
        """Watch the lease from now on."""
        for ready in self._ranks.values():
            self._processes.know(ready.rank, ready.host, ready.pid)
        with self._lock:
            # A cluster that was stopped while it started has no lease to read from.
            if not self._closed.is_set():
                self._watcher.start()

    def expect_end(self) -> None:
        """Note that the ranks are being ended on request: that is then how they ended, whatever it looks like."""
        self._is_asked = True

    def join(self) -> None:
        """Wait until the cluster's end has been reported. Safe to call twice, and from a thread of ours.

        To be called once the lease was asked to end, and has.
        """
        with self._lock:
            self._closed.set()
            if self._watcher.ident is None and self._lease is not None:
                leases.close_pipes(self._lease)
        for thread in (self._watcher, self._attendant):
            if thread is not None and thread.ident is not None and thread is not threading.current_thread():
                thread.join()

    @property
    def silent(self) -> set[int]:
        """The ranks that had sent nothing for some seconds when they were last checked during a run."""
        return set(self._silent_since_s)

    def hear(self, rank: int) -> None:
        """Record that a rank sent something."""
        self._heard_s[rank] = time.monotonic()

    def attend(self, busy: Callable[[], set[int]]) -> None:
        """Check, from now on, that the ranks in a run answer, until there are none.

        Args:
            busy: returns the ranks in a run.
        """
        with self._lock:
            if self._attendant is None and not self._closed.is_set():
                attendant = Supervised(
                    self._attend, "jupyter_ddl supervisor", lambda _: self._attend_again(busy), (busy,)
                )
                attendant.start()
                self._attendant = attendant

    def state_of(self, rank: int) -> RankProcess:
        """Return what is known of the process of a rank in a run."""
        ready = self._ranks[rank]
        known = partial(RankProcess, rank, pid=ready.pid, host=ready.host)
        if time.monotonic() - self._heard_s.get(rank, 0.0) < _ASK_S:
            return known("answers")
        if ready.host != socket.gethostname():
            # All that are silent are asked at once, not one after another.
            self._elsewhere.look(self._silent_hosts())
            letter = self._elsewhere.state_of(ready.host, ready.pid)
            return known(_LETTERS.get(letter or "", "elsewhere"))
        try:
            status = psutil.Process(ready.pid).status()
        except psutil.NoSuchProcess:
            return known("gone")
        except OSError as error:
            return known("hidden", detail=str(error.strerror))
        if self.starves(rank):
            return known("starved")
        return known(_STATES.get(status, "other"), detail="" if status in _STATES else status)

    def _pids_on(self, host: str) -> list[int]:
        return [ready.pid for ready in self._ranks.values() if ready.host == host]

    def _silent_hosts(self) -> set[str]:
        """Return the other hosts of ranks in a run that have sent nothing for some seconds."""
        now_s = time.monotonic()
        silent = (rank for rank, heard_s in list(self._heard_s.items()) if now_s - heard_s > _ASK_S)
        return {self._ranks[rank].host for rank in silent if self._ranks[rank].host in self._hosts}

    def starves(self, rank: int) -> bool:
        """Return whether a rank was ready for a core since it was last asked, and got none; False on another host."""
        ready = self._ranks[rank]
        return ready.host == socket.gethostname() and self._core_time.is_starved(ready.pid)

    def _attend(self, busy: Callable[[], set[int]]) -> None:
        watched: set[int] = set()
        while not self._closed.wait(_TICK_S):
            with self._lock:
                # Called under the lock: a run that begins now finds this thread, or starts another.
                ranks = busy()
                if not ranks:
                    self._attendant = None
                    return
            now_s = time.monotonic()
            for rank in ranks - watched:
                # It may have had nothing to send before.
                self._heard_s[rank] = now_s
                self._silent_since_s.pop(rank, None)
            watched = ranks
            quiet = {rank: now_s - self._heard_s[rank] for rank in sorted(ranks)}
            self._transport.send(Ping(), [rank for rank, seconds in quiet.items() if seconds > _ASK_S], now=True)
            for rank, seconds in quiet.items():
                self._judge(rank, seconds)
            lost = lost_host(quiet, self._ranks, self._elsewhere, self._lost_after_s)
            if lost is not None and not self._closed.is_set():
                self._end_with(lost)
                return

    def _attend_again(self, busy: Callable[[], set[int]]) -> None:
        """Continue after an error, which was printed: a rank that does not answer must be reported nevertheless."""
        with self._lock:
            self._attendant = None
        self.attend(busy)

    def _end_with(self, lost: Fault) -> None:
        """Have the lease end the cluster, which then reports the loss as any other."""
        if self._lease is None or not leases.tell_lost(self._lease, lost):
            self._tell(RankLost(None, lost, lost.at_s))

    def _on_unwatched(self, error: BaseException) -> None:
        """Report the cluster as lost: its end would not be reported any more."""
        at_s = time.time()
        self._tell(RankLost(None, Fault("lost", "lease watch", at_s=at_s, facts=Facts(error=described(error))), at_s))

    def _judge(self, rank: int, seconds: float) -> None:
        now_s = time.monotonic()
        if seconds >= SILENT_S and rank not in self._silent_since_s and rank in self._warm:
            self._silent_since_s[rank] = now_s - seconds
            self._tell(self._silence(rank, round(seconds, 1)))
        elif seconds <= _ASK_S and rank in self._silent_since_s:
            silent_s = round(now_s - seconds - self._silent_since_s.pop(rank), 1)
            self._tell(RankSilent(rank, silent_s, None, time.time(), is_back=True))

    def _silence(self, rank: int, seconds: float) -> RankSilent:
        at_s = time.time()
        facts = Facts(seconds=seconds, processes=(self.state_of(rank),))
        fault = Fault("silent", "rank", (rank,), self._ranks[rank].host, at_s - seconds, facts=facts)
        return RankSilent(rank, seconds, fault, at_s)

    def _watch(self) -> None:
        try:
            self._report_end()
        finally:
            if self._lease is not None and self._lease.poll() is not None:
                leases.close_pipes(self._lease)

    def _report_end(self) -> None:
        """Wait for the cluster's end and report it as an event."""
        ending, is_told = None, False
        while not self._has_said_how_it_ends():
            ending = ending or self._lost_behind_its_back()
            if ending is not None and not is_told:
                is_told = True
                self._tell(self._as_event(ending))
        if self._lease is not None:
            assert self._lease.stdout is not None
            line = self._lease.stdout.readline()
            ending = ending or (ending_of(line) if line else None)
            if not line:
                self._lease.wait()
        if not is_told:
            self._tell(self._as_event(ending or self._ending()))
        if self._lease is not None:
            # A kernel that attached and stops the cluster waits until the lease is gone, which its zombie is not.
            self._lease.wait()

    def _ending(self) -> Fault:
        if self._remote is None:
            return self._folder.ending() or self._unwritten_ending()
        return Fault("stopped", "user", at_s=time.time()) if self._is_asked else self._remote.ending()

    def _has_said_how_it_ends(self) -> bool:
        """Wait for a tick; return whether the lease has reported how the cluster ended, or is gone."""
        if self._lease is not None:
            poller = select.poll()
            assert self._lease.stdout is not None
            poller.register(self._lease.stdout, select.POLLIN)
            return bool(poller.poll(_TICK_S * 1000))
        if self._remote is not None:
            # Once ranks are being ended they are waited for, and otherwise looked at.
            self._closed.wait(_TICK_S)
            return self._closed.is_set() or self._remote.has_ended()
        process = self._folder.lease()
        if process is None:
            return True
        try:
            process.wait(_TICK_S)
        except psutil.TimeoutExpired:
            return False
        return True

    def _lost_behind_its_back(self) -> Fault | None:
        """Return how the cluster ended where a rank's process has been gone for a while and its lease is silent."""
        gone = self._processes.gone()
        now_s = time.monotonic()
        if not gone:
            return None
        self._gone_since_s = self._gone_since_s or now_s
        if now_s - self._gone_since_s < _GONE_S - _TICK_S:
            return None
        said = self._folder.ending()
        if said is not None or len(gone) == 1:
            return said or loss_of(gone[0], time.time())
        # mpiexec ended the others: only the lease knows which was first.
        ranks = tuple(sorted(death.rank for death in gone if death.rank is not None))
        return Fault("lost", "ranks", ranks, at_s=time.time())

    def _as_event(self, ending: Fault) -> RankLost:
        """Return the event that says how the cluster ended, with what we know of the rank that was first."""
        if ending.subject != "rank":
            return RankLost(None, ending, ending.at_s)
        known = named_by(ending, self._ranks)
        # What mpiexec printed adds nothing to that.
        fault = replace(ending, facts=replace(ending.facts, output=""))
        if known is not None:
            fault = replace(fault, ranks=(known.rank,), host=known.host)
        return RankLost(fault.ranks[0] if fault.ranks else None, fault, ending.at_s)

    def _unwritten_ending(self) -> Fault:
        """Return how the cluster ended where no file records it: a stopped one's folder is removed."""
        if self._folder.settings().get("world_id") == self._world_id:
            return Fault("lost", "lease", at_s=time.time())
        return Fault("stopped", "user", at_s=time.time())


# As proc(5) has them.
_LETTERS: dict[str, ProcessState] = {
    "T": "stopped",
    "t": "traced",
    "R": "running",
    "S": "sleeping",
    "D": "disk",
    "Z": "ended",
    "X": "ended",
    GONE: "gone",
    SILENT: "unreachable",
}
_STATES: dict[str, ProcessState] = {
    psutil.STATUS_STOPPED: "stopped",
    psutil.STATUS_TRACING_STOP: "traced",
    psutil.STATUS_RUNNING: "running",
    psutil.STATUS_SLEEPING: "sleeping",
    psutil.STATUS_DISK_SLEEP: "disk",
    psutil.STATUS_ZOMBIE: "ended",
}
