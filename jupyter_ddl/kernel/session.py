"""A cluster and the means to run cells on it: the one place where cluster, runs and views meet.

    result = session.run("rank + 1")
    result.ranks[1].value            # '2'

Magics, command line and tests go through it; `jupyter_ddl.kernel.current` makes one.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster import lifecycle
from jupyter_ddl.cluster.occupancy import check_free
from jupyter_ddl.cluster.spec import planned_anew
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.kernel.bring_up import bring_up, starting
from jupyter_ddl.kernel.cluster_lifecycle import ClusterLifecycle
from jupyter_ddl.kernel.cluster_state import cluster_state, fault_of_loss, why_not_ready
from jupyter_ddl.kernel.rebuilder import Rebuilder
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
    from jupyter_ddl.kernel.incarnation import Incarnation
    from jupyter_ddl.kernel.observers import Observers
    from jupyter_ddl.protocol.cell_options import Options
    from jupyter_ddl.protocol.events import RankReady, RankStacks, RankWarm
    from jupyter_ddl.protocol.faults import Fault
    from jupyter_ddl.protocol.hub_messages import ClusterState
    from jupyter_ddl.runs.run import RunResult
    from jupyter_ddl.views.view import View


class Session:
    """A cluster, and the means to run cells on it. Ends the cluster on leaving a `with` block.

    It has no ranks before `start` or `attach`, by one of which `jupyter_ddl.kernel.current` makes it.

    Args:
        spec: of the first ranks.
        observers: notified of what becomes of it.
        rebuild: start new ranks in place of lost ones without being asked.
        launch: starts ranks.

    Example:
        >>> with jupyter_ddl.start(n=2) as session:
        ...     result = session.run("x = 10 * rank", timeout_s=60)
        ...     session.pull("x")
        {0: 0, 1: 10}
    """

    def __init__(
        self, spec: ClusterSpec, observers: Observers, *, rebuild: bool = True, launch: Launch = lifecycle.start
    ) -> None:
        self._launch = launch
        self._setup_cells = SetupCells()
        rebuilder = Rebuilder(launch, self._setup_cells)
        self._lifecycle = ClusterLifecycle(spec, rebuilder, observers, replaces_lost=rebuild)

    def start(self, progress: Callable[[str], None]) -> None:
        """Start the first ranks.

        Raises:
            InvalidInput: what was asked for breaks a rule.
            ClusterStartFailed: a rank did not come up.
        """
        with starting(self._lifecycle, self._lifecycle.snapshot().spec, "start", progress) as (attempt, step):
            step(attempt.spec.note)
            bring_up(self._lifecycle, attempt, self._launch, step)

    def attach(self, cluster: Cluster) -> None:
        """Use ranks that run already; record what they run for a kernel that is gone."""
        with starting(self._lifecycle, cluster.spec, "attach", lambda _: None) as (attempt, step):
            bring_up(self._lifecycle, attempt, lambda *_: cluster, step)
        self.resume()

    @property
    def _ranks(self) -> Incarnation:
        """The ranks there are or were."""
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
    def world_size(self) -> int:
        """The number of ranks."""
        return self._cluster.world_size

    @property
    def ranks(self) -> list[RankReady]:
        """What each rank said of itself, in order."""
        return [ready for _, ready in sorted(self._cluster.ranks.items())]

    @property
    def note(self) -> str:
        """The sentence that says which defaults were taken."""
        return self._cluster.spec.note

    @property
    def state(self) -> str | None:
        """Why no cell can be run now; None while one can."""
        return why_not_ready(self._lifecycle.snapshot())

    def describe(self) -> ClusterState:
        """Return how the ranks are, as a panel shows it. Safe from any thread."""
        with self._lifecycle.lock:
            return cluster_state(self._lifecycle.snapshot())

    @property
    def why_lost(self) -> Fault | None:
        """Why the ranks are gone; None while they live, and where they were stopped."""
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
            code: Python, magics and all.
            ranks: which ranks; by default all.
            view: makes what shows the run's events as they come.
            setup: have ranks that are started in place of these run it too, before any other cell.
            options: how it runs: the keywords of `jupyter_ddl.protocol.cell_options.CellOptions`.

        Raises:
            InvalidInput: an option is wrong; `auto` or `checkpoint`, and only some of the ranks; `independent` besides.
            RankError: a rank raised.
            RunTimedOut: `timeout_s` passed.
            RunInterrupted: KeyboardInterrupt came; the ranks were released.
            RunStalled: ranks waited for others, and `stalls` says to abort then.
            ClusterLost: the cluster went away.
            SetupFailed: the ranks are new ones in place of lost ones, and a setup cell raised on them.
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
        """Send code to ranks and return at once; `wait()` on what is returned, or `follow_in_background()`.

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
        """Return what one rank alone made of a model, on such devices as these, in an earlier run; None if unknown."""
        first = self.ranks[0]
        return single_rank_samples_per_s(model, describe_device(first.device, self._cluster.spec.threads))

    def push(self, values: Mapping[str, Any], ranks: Iterable[int] | None = None) -> None:
        """Set variables on ranks. NumPy arrays go without copies where they can.

        Raises:
            TransferFailed: a value cannot be sent; it is named.
        """
        self.wait_rebuilt()
        now = usable_ranks(self._lifecycle)
        now.transfer.push(dict(values), now.chosen(ranks))

    def pull(self, name: str, ranks: Iterable[int] | None = None) -> dict[int, Any]:
        """Return a variable's value on each rank: rank -> value.

        Raises:
            TransferFailed: it is not defined, or cannot be sent.
        """
        self.wait_rebuilt()
        now = usable_ranks(self._lifecycle)
        return now.transfer.pull(name, now.chosen(ranks))

    def interrupt(self, reason: str = "Session.interrupt") -> None:
        """Release every rank from what it runs, also from what another kernel runs there. Safe from any thread."""
        now = self._ranks
        now.transfer.release(reason)
        now.runs.release_all(reason)

    def wait_rebuilt(self, progress: Callable[[str], None] = lambda _: None) -> str | None:
        """Wait until ranks that were lost have been replaced; return what came of it, the first time.

        Args:
            progress: called with a sentence at each step.

        Raises:
            ClusterLost: no new ranks came up, or a setup cell ended them too.
            SetupFailed: a setup cell raised on the new ranks; they run, and the next call says nothing of it.
        """
        return wait_settled(self._lifecycle, progress)

    def stacks(self, ranks: Iterable[int] | None = None) -> dict[int, RankStacks]:
        """Return where each rank's Python threads are now: rank -> stacks. Safe from any thread, while a cell runs too.

        Args:
            ranks: which; by default all.
        """
        now = self._ranks
        return now.looks.look(now.chosen(ranks))

    def look_up(self, what: str, code: str, cursor: int, detail: int = 0) -> dict[str, Any]:
        """Return what rank 0 knows of code at the cursor; nothing where it does not answer within a second.

        Args:
            what: "complete" or "inspect".
            code: what is being written.
            cursor: where in it, in characters.
            detail: of "inspect": 1 for the source too.
        """
        return self._ranks.lookups.look_up(what, code, cursor, detail)

    def restart(self, progress: Callable[[str], None] = lambda _: None, **other: Any) -> str:
        """Stop the ranks and start new ones as they were, but for `other` (see `start`). Variables are lost.

        Safe from any thread: a cell that runs meanwhile ends with ClusterLost, one that is run waits for the new ranks.

        Returns:
            A sentence on the setup cells, which ran again; empty where there are none.

        Raises:
            SetupFailed: a setup cell raised on the new ranks.
            ClusterError: a restart goes on already.
        """
        self._lifecycle.replaces_lost = other.pop("rebuild", self._lifecycle.replaces_lost)
        new = planned_anew(self._cluster.spec, other)
        # While there is still something to lose: afterwards `start` would refuse, and nothing would run.
        check_free(new)
        with starting(self._lifecycle, new, "restart", progress) as (attempt, step):
            step("ending the ranks")
            bring_up(self._lifecycle, attempt, self._launch, step)
            return self._setup_cells.replay(step).strip()

    def stop(self) -> None:
        """End the ranks and wait until they are gone. Safe to call twice, and from any thread: a cell ends with it."""
        self._lifecycle.finish_ending(self._lifecycle.stop("stop"))
        self._lifecycle.notify()

    def detach(self) -> None:
        """Let go of the cluster without ending it, where it was started to be kept."""
        self._ranks.detach()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def resume(self) -> None:
        """Follow the runs that the ranks began for another kernel: record what that one missed, and what comes."""
        now = self._ranks
        for folder in unfinished(now.cluster.world_id):
            folder.update(session=this_process())
            run = Run(folder, tuple(folder.record["ranks"]), self.world_size)
            now.runs.resume(run)
            Follower(run, now.runs, None, None).follow_in_background()
