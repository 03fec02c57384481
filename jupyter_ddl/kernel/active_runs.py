"""The runs of one cluster that go on: hands each its events, and takes leave of it.

Runs on: kernel.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jupyter_ddl.host.threads import described, print_error
from jupyter_ddl.kernel import observers
from jupyter_ddl.kernel.horovod_schedule import HorovodTurns
from jupyter_ddl.protocol.events import RankAlive, RankLost, RankSilent
from jupyter_ddl.protocol.faults import Remedy
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.protocol.requests import Ping, Release, ReleaseAsked, RestHorovod
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.faults import Fault, RankProcess
    from jupyter_ddl.runs.run import Run


class ActiveRuns:
    """Every run whose end has not come. Safe to call from any thread.

    Args:
        cluster: whose ranks they are on.
        on_loss: called once, with why the cluster is gone and what it was at; returns what the user can do.
        replaces_lost: returns whether lost ranks are replaced without being asked.

    Attributes:
        lost: why the cluster is gone; None while it lives.
        remedy: what the user can do then.
    """

    def __init__(
        self,
        cluster: Cluster,
        on_loss: Callable[[RankLost, Sequence[Run]], Remedy],
        replaces_lost: Callable[[], bool] = lambda: False,
    ) -> None:
        self._cluster = cluster
        self._on_loss = on_loss
        self._replaces_lost = replaces_lost
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._followers: dict[str, Callable[[str], None]] = {}
        self._horovod = HorovodTurns(is_used=any(ready.uses_horovod for ready in cluster.ranks.values()))
        self.lost: RankLost | None = None
        self.remedy = Remedy("restart")
        self._is_lost = False
        cluster.listen(self._on_event)
        if cluster.lost is not None:
            # It ended before anybody listened.
            self._on_event(cluster.lost)

    @property
    def replaces_lost(self) -> bool:
        """Whether lost ranks are replaced without being asked."""
        return self._replaces_lost()

    def why_lost(self) -> str | None:
        """Return why the cluster is gone, for people; None while it lives."""
        return None if self.lost is None else describe(self.lost.fault)

    def ids(self) -> list[str]:
        """Return the runs' ids."""
        with self._lock:
            return sorted(self._runs)

    def prepares_horovod(self, code: str, *, auto: bool) -> bool:
        """Return whether Horovod must be initialised on all ranks before a cell that is about to begin."""
        return self._horovod.begins_with(code, auto=auto)

    def follow(self, run: Run, release: Callable[[str], None]) -> None:
        """Have `release` called with a reason where somebody releases all runs: it sees to the end of this one."""
        with self._lock:
            self._followers[run.id] = release

    def begin(self, run: Run) -> None:
        """Hand a run its events from here on."""
        with self._lock:
            self._runs[run.id] = run
            if self.lost is not None:
                run.take(self.lost)
        self._cluster.supervisor.attend(self.busy_ranks)
        observers.tell(run)

    def busy_ranks(self) -> set[int]:
        """Return the ranks that are at a run."""
        with self._lock:
            return set().union(*(set(run.pending) for run in self._runs.values() if run.lost is None))

    def drop(self, run: Run) -> None:
        """Forget a run that no rank was sent."""
        with self._lock:
            self._runs.pop(run.id, None)
            self._followers.pop(run.id, None)
        observers.tell()

    def resume(self, run: Run) -> None:
        """Hand a run that another kernel began all its events: those that have been, and those to come."""
        run.is_resumed = True
        with self._lock:
            for event in run.recorder.catch_up(run.ranks):
                run.events.put(event)
            self._runs[run.id] = run
        self._cluster.supervisor.attend(self.busy_ranks)
        observers.tell(run)

    def release(self, run: Run, reason: str) -> None:
        """Release the ranks that are still at a run."""
        self._cluster.request_now(Release(run.id, reason), sorted(run.pending))

    def ask(self, run: Run) -> None:
        """Have the ranks that are still at a run say whether they answer."""
        self._cluster.request_now(Ping(), sorted(run.pending))

    def importing(self, run: Run) -> set[int]:
        """Return those of the ranks still at a run that have not imported TensorFlow yet."""
        return set(run.pending) - self._cluster.warm.keys()

    def state_of(self, rank: int) -> RankProcess:
        """Return what is known of a rank's process."""
        return self._cluster.supervisor.state_of(rank)

    def starve(self, run: Run) -> bool:
        """Return whether a rank that is still at a run is ready to run, and gets no core."""
        return any(self._cluster.supervisor.starves(rank) for rank in sorted(run.pending))

    def give_up(self, fault: Fault) -> None:
        """Take the cluster for lost, which still has processes: they are ended, and replaced where that is wanted."""
        self._on_event(RankLost(None, fault, fault.at_s))

    def release_all(self, reason: str) -> None:
        """Release every rank from what it runs, also from what another kernel runs there.

        Whoever follows a run, in this kernel or another, then sees to it that it ends.
        """
        with self._lock:
            runs = list(self._runs.values())
        others = set(range(self._cluster.world_size)).difference(*(run.pending for run in runs))
        self._release(runs, reason)
        if others:
            self._cluster.request_now(Release("", reason), sorted(others))
            self._cluster.announce(reason)

    def _release(self, runs: Sequence[Run], reason: str) -> None:
        for run in runs:
            follower = self._followers.get(run.id)
            if follower is None:
                self.release(run, reason)
            else:
                follower(reason)

    def end(self, run: Run) -> None:
        """Take leave of a run: Horovod rests until the next one.

        A rank that did not answer its release keeps the run active, until it does: no cell may queue behind it.
        """
        with self._lock:
            run.take_what_came()
            rests = run.lost is None and self._settles(run)
        if rests:
            self._cluster.request(RestHorovod(), range(self._cluster.world_size))
        observers.tell(run)

    def _settles(self, run: Run) -> bool:
        """Note that nobody follows a run any more; return whether Horovod rests now. Called under the lock."""
        run.abandoned = bool(run.pending)
        self._followers.pop(run.id, None)
        if not run.pending:
            self._runs.pop(run.id, None)
        return self._horovod.rests_after(uses_horovod=run.uses_horovod, runs=run.horovod_runs, idle=not self._runs)

    def leave(self) -> None:
        """Note in the folders of the runs that go on that nobody records them: whoever attaches may."""
        with self._lock:
            for run in self._runs.values():
                run.folder.update(session=None)

    def stuck(self) -> str | None:
        """Return the ranks that did not answer their release, for people; None where there are none."""
        with self._lock:
            ranks = {rank for run in self._runs.values() if run.abandoned for rank in run.pending}
        return compact(sorted(ranks)) if ranks else None

    def _on_event(self, event: Event) -> None:
        """Hand an event to the run that it belongs to. Called in the channel's thread."""
        if isinstance(event, ReleaseAsked):
            self._on_release_asked(event)
            return
        if isinstance(event, RankLost):
            with self._lock:
                if self._is_lost:
                    return
                self._is_lost = True
                runs = list(self._runs.values())
            # First: whoever sees that the ranks are lost finds that they are being replaced.
            self.remedy = self._remedy(event, runs)
        with self._lock:
            if isinstance(event, RankLost):
                self.lost = event
            runs = [run for run in self._runs.values() if _concerns(event, run)]
            if isinstance(event, RankAlive):
                for run in runs:
                    run.unwinding.add(event.rank)
                return
            for run in runs:
                _take(run, event)
            late = [run for run in runs if run.abandoned]
        for run in late:
            self.end(run)
        if isinstance(event, RankLost | RankSilent):
            observers.tell()

    def _remedy(self, lost: RankLost, runs: Sequence[Run]) -> Remedy:
        """Have lost ranks replaced; return what the user can do."""
        try:
            return self._on_loss(lost, runs)
        except BaseException as error:  # noqa: BLE001  whatever it is: the runs must hear of the loss all the same
            print_error(error)
            return Remedy("not replaced", problem=described(error))

    def _on_release_asked(self, event: ReleaseAsked) -> None:
        """See to the end of what another kernel released the ranks from."""
        if event.kernel == self._cluster.kernel:
            return
        with self._lock:
            runs = [run for run in self._runs.values() if run.folder.start_s <= event.at_s and run.lost is None]
        self._release(runs, event.reason)


def _take(run: Run, event: Event) -> None:
    """Hand a run an event; whatever its recorder or figures raise, the event reaches whoever follows it."""
    try:
        run.take(event)
    except Exception as error:  # noqa: BLE001  the ranks' end must not be lost with what observes it
        print_error(error)


def _concerns(event: Event, run: Run) -> bool:
    if isinstance(event, RankSilent):
        return event.rank in run.pending
    if isinstance(event, RankAlive):
        return event.interrupted == run.id
    return isinstance(event, RankLost) or getattr(event, "run", None) == run.id
