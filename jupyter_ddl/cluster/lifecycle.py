"""Connects to the ranks of a cluster, hears them, and ends them.

Runs on: kernel.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster import scratch
from jupyter_ddl.cluster.announce import announce
from jupyter_ddl.cluster.apart_files import ApartFiles, ApartHosts
from jupyter_ddl.cluster.channel import Channel
from jupyter_ddl.cluster.end_requests import LEASE_TOPIC
from jupyter_ddl.cluster.host_clocks import TIMED_ON_RANKS, on_our_clock
from jupyter_ddl.cluster.remote_lease import job_is_over
from jupyter_ddl.cluster.supervisor import Supervisor
from jupyter_ddl.cluster.tunnel import Tunnel
from jupyter_ddl.cluster.tunnel import is_needed as tunnel_is_needed
from jupyter_ddl.cluster.use_lock import UseLock
from jupyter_ddl.errors import ClusterError, ClusterLost, ClusterStartFailed
from jupyter_ddl.host.clock import MONOTONIC
from jupyter_ddl.host.threads import ErrorsOnce
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.rank_life import RankLost, RankReady, RankSilent, RankWarm
from jupyter_ddl.protocol.requests import Describe, EndAsked, ReleaseAsked
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.host.clock import Clock
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.requests import Request

# The ranks of a big world on a busy file system take minutes to import; a rank that never starts must not hang `start`.
START_TIMEOUT_S = 300.0
_POLL_S = 0.05


@dataclass(frozen=True)
class Head:
    """The host that a kernel had start its ranks.

    Attributes:
        host: as it was given.
        ahead_s: its clock minus this one's, in seconds.
    """

    host: str
    ahead_s: float


class Cluster:
    """A running cluster, as this kernel sees it.

    Attributes:
        spec: what was requested.
        supervisor: reports whether it lives.
        files: brings the files of ranks on hosts that share no folder.
        use: is held while ranks are used, so that they are not ended as idle.
        world_id: identifies this world of ranks, which none before or after it has.
        kernel: identifies this kernel among those that use the cluster.
        hosts: each host's own name -> the name with which it was given; empty where all ranks are on this host.
        ranks: rank -> its RankReady.
        warm: rank -> the result of its imports; filled as they end.
        clock: by which its runs are followed.
        clock_offsets_s: each host's clock minus this one's, by the host's own name.

    Args:
        folder: the cluster's.
        lease: what holds it, where this kernel started it: the lease, or `head_link` in its place.
        head: the host that this kernel had start it; None for this one, and where it attaches.
    """

    clock: Clock = MONOTONIC

    def __init__(self, folder: ClusterFolder, lease: subprocess.Popen[bytes] | None, head: Head | None = None) -> None:
        self.folder = folder
        self.use = UseLock(folder.path)
        self.spec = folder.spec()
        if self.spec.idle_stop is not None:
            # Until all have imported: ranks that start are not idle.
            self.use.hold()
        settings = folder.settings()
        self.world_id: str = settings["world_id"]
        self.kernel = secrets.token_hex(4)
        self.hosts: dict[str, str] = settings.get("hosts", {})
        # By the clock of the host that looked at the others.
        offsets_s: dict[str, float] = settings.get("clock_offsets_s", {})
        ahead_s = 0.0 if head is None else head.ahead_s
        self.clock_offsets_s = {host: offset_s + ahead_s for host, offset_s in offsets_s.items()}
        self._head = head
        self._scratch: dict[str, str] = settings.get("scratch", {})
        self.ranks: dict[int, RankReady] = {}
        self.warm: dict[int, RankWarm] = {}
        self.channel: Channel | None = None
        self._tunnel: Tunnel | None = None
        self._lease = lease
        self._listeners: list[Callable[[Event], None]] = []
        self._changed = threading.Condition()
        self._lost: RankLost | None = None
        self._stop_lock = threading.Lock()
        self._errors = ErrorsOnce()
        self.files = ApartFiles(ApartHosts.of(self.spec.place, settings), paths.runs_dir())
        self.supervisor = Supervisor(folder, lease, self.ranks, self, self._on_event, self.warm)

    @property
    def lost(self) -> RankLost | None:
        """How it ended; None while it runs."""
        return self._lost

    @property
    def is_orphan(self) -> bool:
        """Whether the kernel that started it is gone."""
        return self.folder.is_orphan()

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.spec.n

    @property
    def connection_file(self) -> Path:
        """Ipyparallel's connection file for clients, as this kernel reaches the controller."""
        return (self._tunnel or self.folder).connection_file

    @property
    def engine_connection_file(self) -> Path:
        """Ipyparallel's connection file for engines, as this kernel reaches the controller."""
        return (self._tunnel or self.folder).engine_connection_file

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every event from now on, in the channel's thread."""
        self._listeners.append(listener)

    def connect(
        self,
        timeout_s: float = START_TIMEOUT_S,
        progress: Callable[[str], None] = lambda _: None,
        given_up: threading.Event | None = None,
    ) -> None:
        """Connect to the controller and wait until every rank has sent RankReady.

        Args:
            timeout_s: how long to wait.
            progress: called with a sentence at each step.
            given_up: set, by another thread, to cancel.

        Raises:
            ClusterStartFailed: the cluster ended meanwhile, a rank did not answer in time, or it was cancelled.
            HostUnfit: the controller is on another host that cannot be reached, by SSH neither.
        """
        deadline_s = time.monotonic() + timeout_s
        given_up = given_up or threading.Event()
        while not self.folder.connection_file.exists():
            self._check(deadline_s, "the controller's connection file", given_up)
            time.sleep(_POLL_S)
        if self.folder.is_elsewhere and tunnel_is_needed(self.folder):
            progress("reaching the controller through SSH")
            host = None if self._head is None else self._head.host
            self._tunnel = Tunnel(self.folder, self.spec.place.ssh, self._lose_events, host)
        self.channel = Channel(self.connection_file, self.world_id, self._on_ranks_event)
        told = 0
        while missing := [rank for rank in range(self.world_size) if rank not in self.ranks]:
            # Sent repeatedly, on both channels: a rank that has not registered yet cannot be reached, and ZeroMQ does
            # not report it.
            self.channel.send(Describe(), missing)
            self.channel.send(Describe(), missing, now=True)
            with self._changed:
                self._changed.wait(_POLL_S)
            if len(self.ranks) != told:
                told = len(self.ranks)
                progress(f"{told} of {self.world_size} ranks are ready")
            self._check(deadline_s, f"ranks {missing}", given_up)
        self.supervisor.start()

    def wait_warm(self, timeout_s: float = START_TIMEOUT_S) -> dict[int, RankWarm]:
        """Wait until every rank has imported TensorFlow and Horovod, or could not; return rank -> RankWarm.

        Raises:
            ClusterLost: the cluster ended meanwhile.
            ClusterStartFailed: a rank did not report in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self.warm) == self.world_size or self._lost is not None, timeout_s)
            missing = sorted(set(range(self.world_size)) - set(self.warm))
            if missing and self._lost is not None:
                raise ClusterLost(
                    f"Ranks must live until they have imported TensorFlow. Received: {describe(self._lost.fault)}\n"
                    f"%ddl restart starts new ones. Logs: {self.folder.log_dir}"
                )
            if missing:
                raise ClusterStartFailed(
                    f"Every rank must import TensorFlow within {timeout_s:g} s. "
                    f"Received: nothing from ranks {missing}. Look at {self.folder.log_dir}."
                )
        return dict(self.warm)

    def is_running(self) -> bool:
        """Return whether the lease lives."""
        return self._lease.poll() is None if self._lease else self.folder.runs()

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:
        """Send a request that each rank handles in its turn; with `now` at once; none once it is stopped."""
        assert self.channel is not None
        self.channel.send(request, ranks, now=now)

    def announce(self, reason: str) -> None:
        """Notify the other kernels that use the cluster that all ranks were released, and why."""
        announce(ReleaseAsked(self.kernel, reason, time.time()), self.engine_connection_file)

    def stop(self) -> None:
        """End the ranks and everything beside them, and wait until they are gone. Safe to call twice.

        A lease that does not end in time is killed, which ends all its descendants.
        """
        with self._stop_lock:
            try:
                self._stop()
            finally:
                self._close_tunnel()

    def _stop(self) -> None:
        self._disconnect()
        if self._lease is None and self.folder.is_elsewhere:
            self.supervisor.expect_end()
            announce(EndAsked(self.kernel), self.engine_connection_file, LEASE_TOPIC)
            self._wait_gone()
        elif self._lease is not None:
            leases.tell_to_stop(self._lease)
        elif (process := self.folder.lease()) is not None:
            # Ours: lease.json names it, and its start time was compared.
            leases.terminate(process)
        # Its last event comes now, and not while the next ranks run.
        self.supervisor.join()
        # The lease has cleared it, unless it was killed.
        scratch.clear(self._scratch)

    def _wait_gone(self) -> None:
        """Wait until this world's lease on another host has ended.

        Raises:
            ClusterError: it does not.
        """
        deadline_s = time.monotonic() + leases.STOP_TIMEOUT_S
        while self.folder.settings().get("world_id") == self.world_id and self.folder.runs():
            if time.monotonic() > deadline_s:
                if job_is_over(self.spec):
                    # Its host is down, and its lock stays.
                    return
                raise ClusterError(
                    f"Ranks on another host end when they are asked to. Received: {self.spec.name!r} runs on after "
                    f"{leases.STOP_TIMEOUT_S:g} s. Is its host up? %ddl jobs shows its job."
                )
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Disconnect from the cluster without ending it."""
        self._disconnect()
        self._close_tunnel()

    def _disconnect(self) -> None:
        self.files.close()
        self.use.close()
        if self.channel is not None:
            self.channel.close()

    def _close_tunnel(self) -> None:
        tunnel, self._tunnel = self._tunnel, None
        if tunnel is not None:
            tunnel.close()

    def _lose_events(self, error: str) -> None:
        """Report the cluster as lost: what its ranks sent meanwhile may be lost, and a run would wait for it."""
        at_s = time.time()
        self._on_event(RankLost(None, Fault("lost", "event reader", at_s=at_s, facts=Facts(error=error)), at_s))

    def on_our_clock(self, event: Event) -> Event:
        """Return an event as a rank sent it, with its time as this host's clock had it."""
        ready = self.ranks.get(event.rank) if isinstance(event, TIMED_ON_RANKS) else None
        return event if ready is None else on_our_clock(event, self.clock_offsets_s.get(ready.host, 0.0))

    def _on_ranks_event(self, event: Event) -> None:
        """Take what came over the channel."""
        self._on_event(self.on_our_clock(event))

    def _on_event(self, event: Event) -> None:
        rank: int | None = getattr(event, "rank", None)
        if rank is not None and not isinstance(event, RankLost | RankSilent):
            self.supervisor.hear(rank)
        if isinstance(event, RankReady | RankWarm | RankLost):
            with self._changed:
                if isinstance(event, RankReady):
                    self.ranks[event.rank] = event
                elif isinstance(event, RankWarm):
                    was_warm = len(self.warm) == self.world_size
                    self.warm[event.rank] = event
                    if self.spec.idle_stop is not None and not was_warm and len(self.warm) == self.world_size:
                        self.use.free()
                else:
                    self._lost = event
                self._changed.notify_all()
        for listener in self._listeners:
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001  the other listeners must get the event too
                self._errors.tell(error)

    def _check(self, deadline_s: float, missing: str, given_up: threading.Event) -> None:
        if given_up.is_set():
            raise start_cancelled()
        if not self.is_running():
            ending = self.folder.ending()
            cause = describe(ending) if ending else leases.last_words(self.folder)
            raise ClusterStartFailed(
                f"Every rank must come up. Received: {cause}\n"
                f"Look at {self.folder.log_dir}, or run `jupyter ddl doctor`."
            )
        if time.monotonic() > deadline_s:
            raise ClusterStartFailed(
                f"Every rank must come up in time. Received: nothing from {missing}. "
                f"Look at {self.folder.log_dir}, or run `jupyter ddl doctor`."
            )


def start_cancelled() -> ClusterStartFailed:
    """Return the error of a start that was cancelled."""
    return ClusterStartFailed("The start was cancelled by %ddl stop or %ddl restart.")
