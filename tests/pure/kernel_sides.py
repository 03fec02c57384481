"""The kernel's side of a run without ranks: real runs, followers and rebuilds, on a cluster that a test speaks for."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster.apart_files import ApartFiles, ApartHosts
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.cluster.use_lock import UseLock
from jupyter_ddl.host.clock import MONOTONIC
from jupyter_ddl.kernel.cluster_lifecycle import ClusterLifecycle
from jupyter_ddl.kernel.incarnation import Incarnation
from jupyter_ddl.kernel.observers import Observers
from jupyter_ddl.kernel.run_follower import Follower
from jupyter_ddl.launch.place import HERE
from jupyter_ddl.protocol.events import OutputChunk, RankFinished
from jupyter_ddl.protocol.faults import Fault, RankProcess, Remedy
from jupyter_ddl.protocol.rank_life import RankLost, RankReady
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_ddl.host.clock import Clock
    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.kernel.cluster_lifecycle import Replacement
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.requests import Request

RANKS = (0, 1)
# Longer than anything here may take, on a busy machine too.
DEADLINE_S = 30.0
SPEC = ClusterSpec("tests", len(RANKS), (), 1, {}, keep=False, oversubscribe=False, note="2 ranks")
STOPPED = RankLost(None, Fault("stopped", "user"), 5.0)


class TestCluster:
    """Two ranks that answer what a test has them answer."""

    __test__ = False

    def __init__(self, answer: Callable[[Request, Iterable[int]], None] = lambda *_: None) -> None:
        self.spec = SPEC
        self.world_size = len(RANKS)
        self.world_id = "world-1"
        self.folder = SimpleNamespace(log_dir=None)
        # Of no folder, so that it locks nothing.
        self.use = UseLock(Path("/nowhere"))
        self.connection_file = "no file"
        self.files = ApartFiles(ApartHosts(HERE, {}), Path())
        self.kernel = "kernel-1"
        self.hosts: dict[str, str] = {}
        self.clock: Any = MONOTONIC
        self.clock_offsets_s: dict[str, float] = {}
        self.ranks = {rank: RankReady(rank, 2, rank, "node-a", 4710 + rank, "CPU", 2) for rank in RANKS}
        self.warm: dict[int, object] = dict.fromkeys(RANKS)
        self.lost: RankLost | None = None
        self.sent: list[Request] = []
        self.announced: list[str] = []
        self.supervisor = SimpleNamespace(
            attend=lambda _: None,
            silent=set(),
            starves=lambda _: False,
            state_of=lambda rank: RankProcess(rank, "sleeping", 4710 + rank),
        )
        self._answer = answer
        self._listeners: list[Callable[[Event], None]] = []
        self._stop_lock = threading.Lock()

    def listen(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:
        self.sent.append(request)
        self._answer(request, list(ranks))

    def announce(self, reason: str) -> None:
        self.announced.append(reason)

    def on_our_clock(self, event: Event) -> Event:
        return event

    def say(self, event: Any) -> None:
        """Have the session hear an event."""
        if isinstance(event, RankLost):
            self.lost = event
        for listener in self._listeners:
            listener(event)

    def stop(self) -> None:
        """End the ranks, as a cluster does: their end is said before it returns, and once."""
        self.end(STOPPED)

    def end(self, lost: RankLost) -> None:
        """Have the ranks end, if they live."""
        with self._stop_lock:
            if self.lost is None:
                self.say(lost)


class View:
    """What is shown under a cell."""

    def __init__(self) -> None:
        self.text = ""
        self.is_flushed = False

    def handle(self, event: Event) -> None:
        if isinstance(event, OutputChunk):
            self.text += event.text

    def tick(self, now_s: float) -> None:
        pass

    def flush(self) -> None:
        self.is_flushed = True


def ready(
    cluster: TestCluster, replacement: Replacement, observers: Observers | None = None, *, replaces: bool = True
) -> tuple[ClusterLifecycle, Incarnation]:
    """Return the state of a cluster whose ranks are ready, and these."""
    lifecycle = ClusterLifecycle(SPEC, replacement, observers or Observers(), replaces_lost=replaces)
    attempt = lifecycle.begin(SPEC, "test")
    ranks = Incarnation.of(cluster, lifecycle)  # type: ignore[arg-type]
    lifecycle.adopt(attempt, ranks)
    lifecycle.settle(attempt, "test")
    return lifecycle, ranks


def active_runs(
    cluster: TestCluster,
    on_loss: Callable[..., Remedy],
    observers: Observers | None = None,
    *,
    replaces: bool = True,
) -> ActiveRuns:
    """Return the active runs of a cluster whose ranks are ready; `on_loss` is called where they are to be replaced."""
    replacement: Any = SimpleNamespace(begin=lambda _lifecycle, _attempt, lost, runs: on_loss(lost, runs))
    return ready(cluster, replacement, observers, replaces=replaces)[1].runs


def followed(
    cluster: TestCluster,
    view: Any = None,
    on_loss: Callable[..., Remedy] = lambda *_: Remedy("restarting"),
    *,
    replaces: bool = True,
    timeout_s: float | None = None,
    observers: Observers | None = None,
    clock: Clock = MONOTONIC,
) -> tuple[Follower, Run, ActiveRuns]:
    """Return what follows a run that has begun, the run, and the active runs."""
    runs = active_runs(cluster, on_loss, observers, replaces=replaces)
    run = Run(RunFolder("tests"), RANKS, len(RANKS), clock)
    follower = Follower(run, runs, view, timeout_s)
    runs.begin(run)
    return follower, run, runs


def finished(run: Run, rank: int) -> RankFinished:
    return RankFinished(run.id, rank, time.time(), uses_horovod=False, horovod_runs=False)


def within(call: Callable[[], Any], deadline_s: float = DEADLINE_S) -> BaseException | Any:
    """Return what a call returns or raises in a thread of its own; fail where it has no end."""
    ended: list[Any] = []

    def work() -> None:
        try:
            ended.append(call())
        except BaseException as error:  # noqa: BLE001  the test judges it
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(deadline_s)
    assert ended, "it has no end"
    return ended[0]
