"""Runs cells on a cluster: the one place that joins cluster, runs and views.

    result = session.run("rank + 1")
    result.ranks[1].value            # '2'

Magics, command line and tests go through it; `jupyter_ddl.kernel.current` makes one. It is what a program has of its
ranks, so that each method stands here with all that may be said of it, and what does the work in a module of its own.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster.occupancy import check_free
from jupyter_ddl.cluster.planning import replanned
from jupyter_ddl.cluster.rank_profiles import HZ, SECONDS
from jupyter_ddl.cluster.standby import is_possible
from jupyter_ddl.cluster.start_claims import claimed_start
from jupyter_ddl.cluster.starting import start
from jupyter_ddl.cluster.task_link import TaskLink
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.kernel.bring_up import bring_up, starting
from jupyter_ddl.kernel.cluster_lifecycle import ClusterLifecycle
from jupyter_ddl.kernel.cluster_state import cluster_state, fault_of_loss, why_not_ready
from jupyter_ddl.kernel.rebuild_choice import SHRINK, checked_rebuild
from jupyter_ddl.kernel.rebuilder import Rebuilder
from jupyter_ddl.kernel.restored_variables import restore
from jupyter_ddl.kernel.run_follower import Follower
from jupyter_ddl.kernel.settling import usable_ranks, wait_settled
from jupyter_ddl.kernel.setup_cells import SetupCell, SetupCells
from jupyter_ddl.protocol.cell_options import CellOptions, takes_options
from jupyter_ddl.runs.folder import this_process, unfinished
from jupyter_ddl.runs.run import Run
from jupyter_ddl.runs.store import describe_device, single_rank_samples_per_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Unpack

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.kernel.bring_up import Launch
    from jupyter_ddl.kernel.idle_count import IdleCount
    from jupyter_ddl.kernel.incarnation import Incarnation
    from jupyter_ddl.kernel.observers import Observers
    from jupyter_ddl.kernel.rebuild_choice import Rebuild
    from jupyter_ddl.kernel.wall_time import WallTime
    from jupyter_ddl.protocol.cell_options import Options
    from jupyter_ddl.protocol.events import RankHeld
    from jupyter_ddl.protocol.faults import Fault
    from jupyter_ddl.protocol.host_topology import HostTopology
    from jupyter_ddl.protocol.hub_messages import ClusterState
    from jupyter_ddl.protocol.rank_answers import RankProfile, RankStacks
    from jupyter_ddl.protocol.rank_life import RankReady, RankWarm
    from jupyter_ddl.runs.run import RunResult
    from jupyter_ddl.views.view import View


class Session:
    """A cluster, and what runs cells on it. The end of a `with` block ends the cluster.

    It has no ranks before `start` or `attach`; `jupyter_ddl.kernel.current` calls one of them.

    Args:
        spec: of the first ranks.
        observers: notified of its changes.
        rebuild: replace lost ranks without being asked; "shrink": without a host that was lost.
        launch: starts ranks.
        ends: called when the ranks are stopped, before they end: it ends the job that brings them.

    Example:
        >>> with jupyter_ddl.start(n=2) as session:
        ...     result = session.run("x = 10 * rank", timeout_s=60)
        ...     session.pull("x")
        {0: 0, 1: 10}
    """

    def __init__(
        self,
        spec: ClusterSpec,
        observers: Observers,
        *,
        rebuild: Rebuild = True,
        launch: Launch = start,
        ends: Callable[[], None] | None = None,
    ) -> None:
        self._launch = launch
        self._ends = ends
        self._setup_cells = SetupCells()
        rebuilder = Rebuilder(launch, self._setup_cells)
        self._lifecycle = ClusterLifecycle(spec, rebuilder, observers, replaces_lost=bool(rebuild))
        self._lifecycle.shrinks = rebuild == SHRINK

    def start(self, progress: Callable[[str], None]) -> None:
        """Start the first ranks.

        Raises:
            InvalidInput: an argument breaks a rule, or as many clusters run as the profile allows.
            ClusterStartFailed: a rank did not come up.
        """
        spec = self._lifecycle.snapshot().spec
        with claimed_start(spec), starting(self._lifecycle, spec, "start", progress) as (attempt, step):
            step(attempt.spec.note)
            bring_up(self._lifecycle, attempt, self._launch, step)

    def attach(self, cluster: Cluster) -> None:
        """Use ranks that already run; record the runs that another kernel began on them."""
        with starting(self._lifecycle, cluster.spec, "attach", lambda _: None) as (attempt, step):
            bring_up(self._lifecycle, attempt, lambda *_: cluster, step)
        self.resume()

    @property
    def _ranks(self) -> Incarnation:
        """The current ranks, or the last ones."""
        incarnation = self._lifecycle.snapshot().incarnation
        assert incarnation is not None, "a session is started or attached before it is used"
        return incarnation

    @property
    def _cluster(self) -> Cluster:
        return self._ranks.cluster

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._cluster.spec.name

    @property
    def world_id(self) -> str:
        """Identifies these ranks: those that replace them have another one."""
        return self._cluster.world_id

    @property
    def replaces_lost(self) -> bool:
        """Whether lost ranks are replaced without being asked."""
        return self._lifecycle.replaces_lost

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self._cluster.world_size

    @property
    def ranks(self) -> list[RankReady]:
        """What each rank reported of itself, in the order of ranks."""
        return [ready for _, ready in sorted(self._cluster.ranks.items())]

    @property
    def job(self) -> str | None:
        """The batch job that brought the ranks, as its scheduler names it; None where a kernel started them."""
        served = self._cluster.spec.served
        return None if served is None else served.job

    @property
    def wall_time(self) -> WallTime | None:
        """The end of the batch job that the ranks are in; None without one."""
        return self._ranks.runs.wall_time

    @property
    def idle_count(self) -> IdleCount | None:
        """The count until the ranks are ended as idle; None where they are not. Its `restart` counts from then on."""
        return self._ranks.runs.idle_count

    @property
    def keeps_variables(self) -> bool:
        """Whether what cells defined is saved before the ranks are ended as idle, for `restart`."""
        return self._cluster.spec.keep_variables

    @property
    def note(self) -> str:
        """A sentence on the defaults that were chosen."""
        return self._cluster.spec.note

    @property
    def has_standby(self) -> bool:
        """Whether other ranks are made to wait, where memory allows, to take the place of these."""
        return is_possible(self._cluster.spec)

    @property
    def state(self) -> str | None:
        """Why no cell can be run now; None while one can."""
        return why_not_ready(self._lifecycle.snapshot())

    def describe(self) -> ClusterState:
        """Return the state of the cluster and its ranks, as a panel shows it. Safe from any thread."""
        with self._lifecycle.lock:
            return cluster_state(self._lifecycle.snapshot())

    @property
    def why_lost(self) -> Fault | None:
        """The fault by which the ranks were lost; None while they live, and after a stop."""
        return fault_of_loss(self._lifecycle.snapshot())

    @property
    def busy(self) -> list[str]:
        """The ids of the active runs."""
        return self._ranks.runs.ids()

    def wait_warm(self) -> dict[int, RankWarm]:
        """Wait until TensorFlow and Horovod are imported on every rank; return versions and problems by rank."""
        return self._cluster.wait_warm()

    @takes_options
    def run(
        self,
        code: str,
        ranks: Iterable[int] | None = None,
        *,
        view: Callable[[Run], View] | None = None,
        setup: bool = False,
        **options: Unpack[Options],
    ) -> RunResult:
        """Run code on ranks, as IPython would run a cell there, and wait for its end.

        Args:
            code: Python, with magics where wanted.
            ranks: which ranks; by default all.
            view: makes what shows the run's events as they come.
            setup: run it also on ranks that replace these, before any other cell.
            options: how it runs: the fields of `jupyter_ddl.protocol.cell_options.CellOptions`.

        Raises:
            InvalidInput: an option is wrong; `auto` or `checkpoint` is given for only some of the ranks, or with
                `independent`.
            RankError: a rank raised.
            RunTimedOut: `timeout_s` passed.
            RunInterrupted: KeyboardInterrupt came; the ranks were released.
            RunStalled: ranks waited for others, and `stalls` says to abort then.
            ClusterLost: the ranks were lost.
            SetupFailed: lost ranks were replaced, and a setup cell raised on the new ones.
        """
        with interrupts_noted():
            return self.submit(code, ranks, CellOptions(**options), view=view, setup=setup).wait()

    def submit(
        self,
        code: str,
        ranks: Iterable[int] | None = None,
        options: CellOptions = CellOptions(),  # noqa: B008  frozen
        *,
        view: Callable[[Run], View] | None = None,
        setup: bool = False,
    ) -> Follower:
        """Send code to ranks and return its follower at once: call its `wait()` or `follow_in_background()`.

        Where lost ranks are being replaced, it waits for the new ones first.
        """
        self.wait_rebuilt()
        if not setup:
            return self._send(code, ranks, options, view=view)
        again = SetupCell(code, lambda: self._send(code, ranks, options).wait())
        return self._send(code, ranks, options, view=view, finished=lambda: self._setup_cells.remember(again))

    def _send(
        self,
        code: str,
        ranks: Iterable[int] | None,
        options: CellOptions,
        *,
        view: Callable[[Run], View] | None = None,
        finished: Callable[[], None] | None = None,
    ) -> Follower:
        now = usable_ranks(self._lifecycle)
        chosen = now.chosen(ranks)
        return now.sender.send(code, chosen, options.checked(chosen, self.world_size), view, finished)

    def single_rank_samples_per_s(self, model: str) -> float | None:
        """Return a model's samples/s on one rank alone, on devices like these, in an earlier run; None if unknown."""
        first = self.ranks[0]
        return single_rank_samples_per_s(model, describe_device(first.device, first.threads))

    def push(self, values: Mapping[str, Any], ranks: Iterable[int] | None = None) -> None:
        """Set variables on ranks. NumPy arrays are sent without copies where possible.

        Raises:
            TransferFailed: a value cannot be sent; it is named.
        """
        self.wait_rebuilt()
        now = usable_ranks(self._lifecycle)
        with now.cluster.use.held():
            now.transfer.push(dict(values), now.chosen(ranks))

    def pull(self, name: str, ranks: Iterable[int] | None = None) -> dict[int, Any]:
        """Return a variable's value on each rank: rank -> value.

        Raises:
            TransferFailed: it is not defined, or cannot be sent.
        """
        self.wait_rebuilt()
        now = usable_ranks(self._lifecycle)
        with now.cluster.use.held():
            return now.transfer.pull(name, now.chosen(ranks))

    def task_link(self) -> TaskLink:
        """Return a new connection to the ranks for tasks, of which `jupyter_ddl.parallel_backend` makes one a call."""
        cluster = usable_ranks(self._lifecycle).cluster
        return TaskLink(cluster.connection_file, cluster.world_id)

    def interrupt(self, reason: str = "Session.interrupt") -> None:
        """Release every rank from its run, also from another kernel's. Safe from any thread."""
        now = self._ranks
        now.transfer.release(reason)
        now.runs.release_all(reason)

    def wait_rebuilt(self, progress: Callable[[str], None] = lambda _: None) -> str | None:
        """Wait until lost ranks have been replaced; return the report of that, once.

        Args:
            progress: called with a sentence at each step.

        Raises:
            ClusterLost: no new ranks came up, or a setup cell ended them too.
            SetupFailed: a setup cell raised on the new ranks; they run, and this is raised once.
        """
        return wait_settled(self._lifecycle, progress)

    def stacks(self, ranks: Iterable[int] | None = None) -> dict[int, RankStacks]:
        """Return where each rank's Python threads are now: rank -> stacks. Safe from any thread, while a cell runs too.

        Args:
            ranks: which; by default all.
        """
        now = self._ranks
        return now.looks.look(now.chosen(ranks))

    def profile(
        self, ranks: Iterable[int] | None = None, seconds: float = SECONDS, hz: float = HZ
    ) -> dict[int, RankProfile]:
        """Return where each rank's main thread is for some seconds from now on: rank -> profile. Safe from any thread.

        Args:
            ranks: which; by default all.
            seconds: for how long.
            hz: how many samples a second.

        Raises:
            InvalidInput: another profile is being taken of a rank.
        """
        now = self._ranks
        return now.profiles.take(now.chosen(ranks), seconds, hz)

    def topology(self) -> dict[str, HostTopology | None]:
        """Return what each host has for the exchange between ranks: host -> its GPUs, their paths, its interfaces.

        It is None for a host none of whose ranks answers within ten seconds.
        """
        return self._ranks.topologies.wait()

    def look_up(self, what: str, code: str, cursor: int, detail: int = 0, rank: int = 0) -> dict[str, Any]:
        """Return what a rank knows of code at the cursor; nothing where it does not answer within a second.

        Args:
            what: "complete" or "inspect".
            code: the cell as it is being written.
            cursor: where in it, in characters.
            detail: of "inspect": 1 for the source too.
            rank: which one is asked.
        """
        return self._ranks.lookups.look_up(what, code, cursor, detail, rank)

    def debug(self, rank: int, message: dict[str, Any]) -> dict[str, Any]:
        """Return what a rank's debugger answers. Safe from any thread, also while the rank is held.

        Args:
            rank: which.
            message: a request of the Debug Adapter Protocol: its command, arguments and seq.

        Raises:
            ClusterError: it does not answer.
        """
        return self._ranks.debugging.debug(rank, message)

    @property
    def held(self) -> list[RankHeld]:
        """The ranks that are held in the debugger now, and where."""
        return self._ranks.runs.held()

    def restart(
        self, progress: Callable[[str], None] = lambda _: None, *, reports_later: bool = False, **other: Any
    ) -> str:
        """End the ranks and start new ones with the same settings, but for `other` (see `start`).

        Variables are lost, but for those that ranks with `keep_variables` saved before they were ended as idle.
        Safe from any thread: a running cell ends with ClusterLost, and a later one waits for the new ranks.

        Args:
            progress: called with a sentence at each step.
            reports_later: the next cell shows what is returned, too: no cell shows it now.
            other: arguments of `start`.

        Returns:
            Sentences on the setup cells, which ran again, and on the variables that the ranks before kept when they
            were ended as idle; empty where there are none.

        Raises:
            InvalidInput: what is given breaks a rule, or is more than the profile of the start allows.
            SetupFailed: a setup cell raised on the new ranks.
            ClusterError: ranks are being started already.
        """
        if self._cluster.spec.served is not None and (other.pop("env", None) or other):
            raise InvalidInput(
                "Ranks that a job brings are restarted as they were submitted.",
                ", ".join(other) or "env",
                "Pass no options, or %ddl stop and %ddl submit.",
            )
        rebuild = checked_rebuild(other.pop("rebuild")) if "rebuild" in other else None
        before, uses_horovod = self.world_id, self._ranks.runs.uses_horovod
        old = self._cluster.spec
        new = replanned(old, other)
        # Before the old ranks end: where `start` refused after that, no ranks would be left.
        are_there = self._ranks.runs.lost is None
        check_free(new, old if are_there else None)
        if rebuild is not None:
            self._lifecycle.replaces_lost, self._lifecycle.shrinks = bool(rebuild), rebuild == SHRINK
        # Another start may have the place of ranks that are gone.
        counted = claimed_start(new, keeps_place=are_there)
        with counted, starting(self._lifecycle, new, "restart", progress) as (attempt, step):
            step("ending the ranks")
            bring_up(self._lifecycle, attempt, self._launch, step)
            replayed = self._setup_cells.replay(step).strip()
            kept = restore(before, self._ranks, step, uses_horovod=uses_horovod)
            told = "\n".join(filter(None, [replayed, kept]))
            attempt.report = told if told and reports_later else None
            return told

    def stop(self) -> None:
        """End the ranks and wait until they are gone; a running cell ends too. Safe to call twice, from any thread."""
        ending = self._lifecycle.stop("stop")
        if self._ends is not None:
            self._ends()
        self._lifecycle.finish_ending(ending)
        self._lifecycle.notify()

    def detach(self) -> None:
        """Disconnect from the cluster without ending it, where it was started to be kept."""
        self._ranks.detach()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def resume(self) -> None:
        """Follow the active runs of another kernel: record the events that it missed, and those to come."""
        now = self._ranks
        for folder in unfinished(now.cluster.world_id):
            folder.update(session=this_process())
            run = Run(folder, tuple(folder.record["ranks"]), self.world_size, now.cluster.clock)
            now.runs.resume(run)
            Follower(run, now.runs, None, None).follow_in_background()
