"""A cluster and the means to run cells on it: the one place where cluster, runs and views meet.

    result = session.run("rank + 1")
    result.ranks[1].value            # '2'

Magics, command line and tests go through it; `jupyter_ddl.kernel.current` makes one.

Runs on: kernel.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster import lifecycle
from jupyter_ddl.cluster.lookups import Lookups
from jupyter_ddl.cluster.occupancy import check_free
from jupyter_ddl.cluster.rank_stacks import StackLooks
from jupyter_ddl.cluster.spec import planned_anew
from jupyter_ddl.cluster.transfer import Transfer
from jupyter_ddl.errors import ClusterError, ClusterLost, InvalidInput, NoCluster
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.kernel import observers
from jupyter_ddl.kernel.active_runs import ActiveRuns
from jupyter_ddl.kernel.cluster_lifecycle import Life
from jupyter_ddl.kernel.cluster_state import cluster_state
from jupyter_ddl.kernel.rebuilder import Rebuilder, SetupCell
from jupyter_ddl.kernel.run_follower import Follower
from jupyter_ddl.kernel.sending import Sender
from jupyter_ddl.protocol.cell_options import CellOptions, takes_options
from jupyter_ddl.protocol.events import RankLost
from jupyter_ddl.protocol.faults import Fault, Remedy
from jupyter_ddl.protocol.requests import ReleaseAsked
from jupyter_ddl.runs.folder import this_process, unfinished
from jupyter_ddl.runs.run import Run
from jupyter_ddl.runs.store import describe_device, single_rank_samples_per_s
from jupyter_ddl.views.fault import describe, render_remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Unpack

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.protocol.cell_options import Options
    from jupyter_ddl.protocol.events import Event, RankReady, RankStacks, RankWarm
    from jupyter_ddl.protocol.hub_messages import ClusterState
    from jupyter_ddl.runs.run import RunResult
    from jupyter_ddl.views.view import View


class Session:
    """A cluster, and the means to run cells on it. Ends the cluster on leaving a `with` block.

    Example:
        >>> with jupyter_ddl.start(n=2) as session:
        ...     result = session.run("x = 10 * rank", timeout_s=60)
        ...     session.pull("x")
        {0: 0, 1: 10}
    """

    def __init__(self, cluster: Cluster, *, rebuild: bool = True) -> None:
        self._rebuilder = Rebuilder(self._renew, enabled=rebuild)
        self._adopt_lock = threading.Lock()
        self._life = Life()
        self._adopt(cluster)

    def _adopt(self, cluster: Cluster) -> None:
        self._cluster = cluster
        runs = ActiveRuns(cluster, self._on_loss, replaces_lost=lambda: self._rebuilder.enabled)
        self._transfer = Transfer(cluster.folder.connection_file, cluster.world_id, runs.why_lost, cluster.request_now)
        cluster.listen(partial(_release_asked, cluster.kernel, self._transfer))
        self._looks = StackLooks(cluster)
        self._lookups = Lookups(cluster)
        self._sender = Sender(cluster, runs, self._looks)
        # Last: by this another thread, which runs cells, sees that there are ranks again.
        self._runs = runs

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
        return [self._cluster.ranks[rank] for rank in sorted(self._cluster.ranks)]

    @property
    def note(self) -> str:
        """The sentence that says which defaults were taken."""
        return self._cluster.spec.note

    @property
    def state(self) -> str | None:
        """Why no cell can be run now; None while one can."""
        if self._rebuilder.step is not None:
            return f"new ranks in place of lost ones: {self._rebuilder.step}"
        return self._runs.why_lost()

    def describe(self) -> ClusterState:
        """Return how the ranks are, as a panel shows it. Safe from any thread."""
        return cluster_state(self._cluster, self._runs, self._rebuilder.step)

    @property
    def why_lost(self) -> Fault | None:
        """Why the ranks are gone; None while they live, and where they were stopped."""
        lost = self._runs.lost
        return None if lost is None or lost.asked else lost.fault

    @property
    def busy(self) -> list[str]:
        """The ids of the runs that go on."""
        return self._runs.ids()

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
        self._rebuilder.note_cell()
        if not setup:
            return self._send(code, ranks, options, view=view)
        again = SetupCell(code, lambda: self._send(code, ranks, options).wait())
        return self._send(code, ranks, options, view=view, finished=lambda: self._rebuilder.remember(again))

    def _send(
        self,
        code: str,
        ranks: Iterable[int] | None,
        options: CellOptions,
        *,
        view: Callable[[Run], View] | None = None,
        finished: Callable[[], None] | None = None,
    ) -> Follower:
        self._check_usable()
        chosen = self._chosen(ranks)
        return self._sender.send(code, chosen, options.checked(chosen, self.world_size), view, finished)

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
        self._check_usable()
        self._transfer.push(dict(values), self._chosen(ranks))

    def pull(self, name: str, ranks: Iterable[int] | None = None) -> dict[int, Any]:
        """Return a variable's value on each rank: rank -> value.

        Raises:
            TransferFailed: it is not defined, or cannot be sent.
        """
        self.wait_rebuilt()
        self._check_usable()
        return self._transfer.pull(name, self._chosen(ranks))

    def interrupt(self, reason: str = "Session.interrupt") -> None:
        """Release every rank from what it runs, also from what another kernel runs there. Safe from any thread."""
        self._transfer.release(reason)
        self._runs.release_all(reason)

    def wait_rebuilt(self, progress: Callable[[str], None] = lambda _: None) -> str | None:
        """Wait until ranks that were lost have been replaced; return what came of it, the first time.

        Args:
            progress: called with a sentence at each step.

        Raises:
            ClusterLost: no new ranks came up, or a setup cell ended them too.
            SetupFailed: a setup cell raised on the new ranks; they run, and the next call says nothing of it.
        """
        self._life.wait_settled()
        return self._rebuilder.wait(progress)

    def stacks(self, ranks: Iterable[int] | None = None) -> dict[int, RankStacks]:
        """Return where each rank's Python threads are now: rank -> stacks. Safe from any thread, while a cell runs too.

        Args:
            ranks: which; by default all.
        """
        return self._looks.look(self._chosen(ranks))

    def look_up(self, what: str, code: str, cursor: int, detail: int = 0) -> dict[str, Any]:
        """Return what rank 0 knows of code at the cursor; nothing where it does not answer within a second.

        Args:
            what: "complete" or "inspect".
            code: what is being written.
            cursor: where in it, in characters.
            detail: of "inspect": 1 for the source too.
        """
        return self._lookups.look_up(what, code, cursor, detail)

    def restart(self, progress: Callable[[str], None] = lambda _: None, **other: Any) -> str:
        """Stop the ranks and start new ones as they were, but for `other` (see `start`). Variables are lost.

        Safe from any thread: a cell that runs meanwhile ends with ClusterLost, one that is run waits for the new ranks.

        Returns:
            What is to be told of the setup cells, which ran again; empty where there are none.

        Raises:
            SetupFailed: a setup cell raised on the new ranks.
            ClusterError: a restart goes on already.
        """
        self._rebuilder.enabled = other.pop("rebuild", self._rebuilder.enabled)
        new = planned_anew(self._cluster.spec, other)
        # While there is still something to lose: afterwards `start` would refuse, and nothing would run.
        check_free(new)
        with self._life.restarting(), observers.start_told(new, progress) as told:
            told("ending the ranks")
            self._stop()
            self._adopt(lifecycle.start(new, told, self._life.given_up))
            return self._rebuilder.replay(told).strip()

    def stop(self) -> None:
        """End the ranks and wait until they are gone. Safe to call twice, and from any thread: a cell ends with it."""
        with self._life.ending():
            self._stop()
        observers.tell()

    def _stop(self) -> None:
        with self._adopt_lock:
            self._rebuilder.give_up()
        self._transfer.close()
        self._cluster.stop()
        self._rebuilder.join()
        self._runs.lost = RankLost(None, Fault("stopped", "user"), 0.0)

    def _on_loss(self, lost: RankLost, runs: Sequence[Run]) -> Remedy:
        """Have lost ranks replaced; return what the user is to know. Called once for each world of ranks."""
        if lost.asked:
            return Remedy("restarting" if self._life.is_restarting else "restart")
        return self._rebuilder.replace(describe(lost.fault), self.world_size, runs)

    def _renew(self, progress: Callable[[str], None], given_up: threading.Event) -> None:
        """End what is left of the ranks and start new ones as they were. Called in the rebuilder's thread."""
        progress("ending what is left of the old ranks")
        self._transfer.close()
        self._cluster.stop()
        cluster = lifecycle.start(self._cluster.spec, progress, given_up)
        with self._adopt_lock:
            if not given_up.is_set():
                self._adopt(cluster)
                return
        cluster.stop()

    def detach(self) -> None:
        """Let go of the cluster without ending it, where it was started to be kept."""
        self._transfer.close()
        self._cluster.detach()
        self._runs.leave()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def resume(self) -> None:
        """Take up the runs that the ranks began for another kernel: record what that one missed, and what comes."""
        for folder in unfinished(self._cluster.world_id):
            folder.update(session=this_process())
            run = Run(folder, tuple(folder.record["ranks"]), self.world_size)
            self._runs.resume(run)
            Follower(run, self._runs, None, None).follow_in_background()

    def _chosen(self, ranks: Iterable[int] | None) -> tuple[int, ...]:
        if ranks is None:
            return tuple(range(self.world_size))
        chosen = tuple(sorted(set(ranks)))
        if not chosen or chosen[0] < 0 or chosen[-1] >= self.world_size:
            raise InvalidInput(
                f"A rank must be one of 0-{self.world_size - 1}.",
                f"ranks {list(chosen)} of {self.world_size}",
                "Pass ranks that exist, or none for all.",
            )
        return chosen

    def _check_usable(self) -> None:
        lost = self._runs.lost
        if lost is not None:
            if lost.asked:
                raise NoCluster(
                    f"Ranks must run. Received: the cluster {self.name!r} was stopped. Start one with %ddl start."
                )
            raise ClusterLost(f"Ranks must run. Received: {describe(lost.fault)}\n{render_remedy(self._runs.remedy)}")
        stuck = self._runs.stuck()
        if stuck:
            raise ClusterError(
                f"Every rank must have ended the cell before. Received: ranks {stuck} did not answer "
                f"their release. Wait until they do, or start new ones with %ddl restart."
            )


def _release_asked(kernel: str, transfer: Transfer, event: Event) -> None:
    """End a transfer's wait where another kernel released the ranks from it."""
    if isinstance(event, ReleaseAsked) and event.kernel != kernel:
        transfer.release(event.reason, event.at_s)
