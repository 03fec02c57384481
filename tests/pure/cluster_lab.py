"""A real session whose ranks a test speaks for: it is brought into any state, and anything may happen to it there."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from kernel_sides import DEADLINE_S, RANKS, SPEC, STOPPED, TestCluster, finished

from jupyter_ddl.cluster.lifecycle import start_cancelled
from jupyter_ddl.errors import ClusterStartFailed, DdlError
from jupyter_ddl.kernel.cluster_transitions import LifecycleState
from jupyter_ddl.kernel.observers import Observers
from jupyter_ddl.kernel.session import Session
from jupyter_ddl.kernel.setup_cells import SetupCell
from jupyter_ddl.protocol.events import RankFailed
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.protocol.requests import Release
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.kernel.cluster_lifecycle import ClusterLifecycle
    from jupyter_ddl.kernel.run_follower import Follower
    from jupyter_ddl.protocol.requests import Request

KILLED = RankLost(1, Fault("lost", "rank", (1,), "node-a"), 5.0)
_POLL_S = 0.002


class Launch:
    """One start of ranks, which ends as the test says."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self.fails = False

    def end(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.may_end.set()


class Lab:
    """A session, its clusters, and what was run there."""

    def __init__(self, *, rebuild: bool = True) -> None:
        self.clusters: list[TestCluster] = []
        self.launches: list[Launch] = []
        self.runs: list[tuple[ActiveRuns, Run]] = []
        self.released: set[str] = set()
        self.cells: list[tuple[TestCluster, Follower]] = []
        # Set when a start is held, and when a call of a thread has ended.
        self.moved = threading.Event()
        # Cleared: a start that is cancelled takes long to end its ranks.
        self.may_cancel = threading.Event()
        self.may_cancel.set()
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []
        self.notices: list[object] = []
        self.is_held = False
        self.is_launching = False
        observers = Observers()
        observers.add(self._notice)
        self.session = Session(SPEC, observers, rebuild=rebuild, launch=self._launch)
        self.session.start(lambda _: None)

    @property
    def lifecycle(self) -> ClusterLifecycle:
        return self.session._lifecycle

    @property
    def state(self) -> LifecycleState:
        return self.lifecycle.snapshot().state

    @property
    def cluster(self) -> TestCluster:
        cluster: Any = self.session._cluster
        return cluster

    def _notice(self, run: object) -> None:
        # A panel asks for the state in another thread, while the notifying one waits: under the lock, neither went on.
        asked = threading.Thread(target=self.session.describe)
        asked.start()
        asked.join(DEADLINE_S)
        assert not asked.is_alive(), "observers are notified under the lock"
        self.notices.append(run)

    def _launch(self, _spec: Any, step: Callable[[str], None], given_up: threading.Event) -> Any:
        """Start ranks as `cluster.starting.start` does: wait, look whether they are wanted, return them or raise."""
        launch = Launch()
        if self.is_launching or any(cluster.lost is None for cluster in self.clusters):
            self.errors.append(AssertionError("ranks are started while others of that name are"))
        self.is_launching = True
        self.launches.append(launch)
        if not self.is_held:
            launch.end()
        step("starting 2 ranks")
        launch.has_begun.set()
        self.moved.set()
        try:
            while not launch.may_end.wait(_POLL_S):
                if given_up.is_set():
                    assert self.may_cancel.wait(DEADLINE_S)
                    raise start_cancelled()
            if launch.fails:
                raise ClusterStartFailed("no rank came up")
        finally:
            self.is_launching = False
        cluster = TestCluster(lambda request, ranks: self._answer(cluster, request, ranks))
        cluster.warm = {}
        self.clusters.append(cluster)
        return cluster

    def _answer(self, cluster: TestCluster, request: Request, ranks: Iterable[int]) -> None:
        """Answer as ranks do that can be released."""
        if isinstance(request, Release) and request.run:
            self.released.add(request.run)
            for rank in ranks:
                cluster.say(
                    RankFailed(
                        request.run,
                        rank,
                        "node-a",
                        "KeyboardInterrupt",
                        "",
                        (),
                        released=True,
                        at_s=5.0,
                        reason=request.reason,
                    )
                )

    def in_thread(self, call: Callable[[], object]) -> threading.Thread:
        """Have a thread call; what it raises of ours is kept."""

        def work() -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001  the test judges it
                self.errors.append(error)
            finally:
                self.moved.set()

        thread = threading.Thread(target=work, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    # What may happen.

    def restart(self) -> None:
        self.session.restart()

    def stop(self) -> None:
        self.session.stop()

    def interrupt(self) -> None:
        self.session.interrupt("test")

    def ranks_die(self) -> None:
        self.cluster.end(KILLED)

    def ranks_are_stopped_elsewhere(self) -> None:
        self.cluster.end(STOPPED)

    def cell_is_run(self) -> None:
        """Run a cell as a user does: it waits for ranks that are being started."""
        follower = self.session.submit("1")
        follower.follow_in_background()
        self.cells.append((self._cluster_of(follower), follower))

    def _cluster_of(self, follower: Follower) -> TestCluster:
        cluster: Any = follower._runs._cluster
        return cluster

    def run_begins(self) -> None:
        """Begin a run that found ranks ready, whatever has become of these by now."""
        ranks = self.session._ranks.runs
        run = Run(RunFolder("tests"), RANKS, len(RANKS))
        self.runs.append((ranks, run))
        ranks.begin(run)

    def runs_end(self) -> None:
        for ranks, run in list(self.runs):
            if not run.is_over:
                for rank in sorted(run.pending):
                    run.take(finished(run, rank))
                ranks.end(run)
        for cluster, follower in list(self.cells):
            for rank in RANKS:
                cluster.say(finished(follower.run, rank))
            self._join(follower)

    @staticmethod
    def _join(follower: Follower) -> None:
        thread = follower._thread
        assert thread is not None
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "a cell has no end"

    def start_ends_well(self) -> None:
        self._end_of_launch(fails=False)

    def start_fails(self) -> None:
        self._end_of_launch(fails=True)

    def _end_of_launch(self, *, fails: bool) -> None:
        for launch in self.launches:
            if not launch.may_end.is_set():
                launch.end(fails=fails)

    def settle(self) -> None:
        """Let all starts end, and wait until no thread is at one."""
        self.is_held = False
        for launch in list(self.launches):
            launch.may_end.set()
        for thread in list(self.threads):
            if thread is not threading.current_thread():
                thread.join(DEADLINE_S)
                assert not thread.is_alive(), "it has no end"
        with self.lifecycle.lock:
            assert self.lifecycle.lock.wait_for(lambda: not self.lifecycle._going, DEADLINE_S), "it has no end"
        for ranks, run in self.runs:
            run.take_what_came()
            if run.is_over:
                ranks.end(run)
        for cluster, follower in self.cells:
            if cluster.lost is not None or follower.run.id in self.released:
                self._join(follower)

    def close(self) -> None:
        """End all that is still active."""
        self.settle()
        self.session.stop()
        self.settle()

    # The states that it may be in.

    def bring_into(self, state: LifecycleState) -> None:
        if state is LifecycleState.STARTING:
            self.is_held = True
            self.in_thread(self.restart)
            self._wait_for_launch()
        elif state is LifecycleState.RUNNING:
            self.run_begins()
        elif state is LifecycleState.REBUILDING:
            self.is_held = True
            self.ranks_die()
            self._wait_for_launch()
        elif state is LifecycleState.LOST:
            self.lifecycle.replaces_lost = False
            self.ranks_die()
            self.lifecycle.replaces_lost = True
        elif state is LifecycleState.STOPPED:
            self.stop()
        assert self.state is state
        self.errors.clear()

    def _wait_for_launch(self) -> None:
        with self.lifecycle.lock:
            assert self.lifecycle.lock.wait_for(lambda: self.lifecycle._step == "starting 2 ranks", DEADLINE_S)
        assert self.launches[-1].has_begun.wait(DEADLINE_S)

    def remember(self, run: Callable[[], object]) -> None:
        """Have new ranks run a setup cell."""
        self.session._setup_cells.remember(SetupCell("setup", run))

    # What holds whatever happened.

    def check(self) -> None:
        """Check what must hold once nothing is active."""
        assert self.state in (LifecycleState.READY, LifecycleState.RUNNING, LifecycleState.LOST, LifecycleState.STOPPED)
        living = [cluster for cluster in self.clusters if cluster.lost is None]
        wanted = [self.cluster] if self.state in (LifecycleState.READY, LifecycleState.RUNNING) else []
        assert living == wanted, "unwanted ranks live, or wanted ones do not"
        runs = [run for _, run in self.runs] + [follower.run for _, follower in self.cells]
        active = [run for run in runs if run.id in self.session.busy]
        assert (self.state is LifecycleState.RUNNING) == any(not run.is_over for run in active)
        assert all(run.is_over for run in runs if run not in active), "a run has no end"
        assert all(isinstance(error, DdlError) for error in self.errors), self.errors
        assert self.session.describe()["state"] == self.state.value
