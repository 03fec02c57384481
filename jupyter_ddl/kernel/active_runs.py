"""Keeps the active runs of one world of ranks: routes events to each, and ends it.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jupyter_ddl.host.threads import print_error
from jupyter_ddl.kernel.horovod_schedule import HorovodTurns
from jupyter_ddl.protocol.faults import Remedy
from jupyter_ddl.protocol.rank_life import RankAlive, RankLost, RankSilent
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.protocol.requests import (
    CellRaised,
    HorovodAsked,
    Ping,
    PrepareHorovod,
    Release,
    ReleaseAsked,
    RestHorovod,
)
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.kernel.idle_count import IdleCount
    from jupyter_ddl.kernel.wall_time import WallTime
    from jupyter_ddl.protocol.events import Event, RankHeld
    from jupyter_ddl.protocol.faults import Fault, RankProcess
    from jupyter_ddl.runs.run import Run


class RunsOwner(Protocol):
    """The state of the cluster that active runs belong to; they share its lock.

    Attributes:
        lock: guards the state and the active runs, which change together.
        replaces_lost: whether lost ranks are replaced without being asked.
    """

    lock: threading.Condition
    replaces_lost: bool

    def run_began(self, runs: ActiveRuns, run: Run) -> None:
        """Note that a run is active."""

    def runs_ended(self, runs: ActiveRuns, run: Run) -> None:
        """Note that no run is active now; `run` was the last."""

    def lose(self, runs: ActiveRuns, lost: RankLost, active: Sequence[Run]) -> Remedy:
        """Note that the ranks have ended; return the remedy. Called once, under the lock."""

    def notify(self, run: Run | None = None) -> None:
        """Notify the observers. Called without the lock."""


@dataclass(frozen=True)
class _Loss:
    """How the ranks ended, and the remedy. Written once."""

    lost: RankLost
    remedy: Remedy


class ActiveRuns:
    """Every run that has not ended. Safe to call from any thread.

    Args:
        cluster: the cluster that they run on.
        owner: the state of the cluster.

    Attributes:
        wall_time: of the batch job that the ranks are in; None without one.
        idle_count: until they are ended as idle; None where they are not.
        last_released: the run of this kernel that was released last; "" for none.
    """

    def __init__(self, cluster: Cluster, owner: RunsOwner) -> None:
        self.wall_time: WallTime | None = None
        self.idle_count: IdleCount | None = None
        self.last_released = ""
        self._cluster = cluster
        self._owner = owner
        self._lock = owner.lock
        self._runs: dict[str, Run] = {}
        self._followers: dict[str, Callable[[str], None]] = {}
        self._horovod = HorovodTurns(is_used=any(ready.uses_horovod for ready in cluster.ranks.values()))
        self._loss: _Loss | None = None
        cluster.listen(self._on_event)
        if cluster.lost is not None:
            # The ranks ended before this listened.
            self._on_event(cluster.lost)

    @property
    def lost(self) -> RankLost | None:
        """How the ranks ended; None while they live."""
        return None if self._loss is None else self._loss.lost

    @property
    def remedy(self) -> Remedy:
        """What the user can do about lost ranks."""
        return Remedy("restart") if self._loss is None else self._loss.remedy

    @property
    def replaces_lost(self) -> bool:
        """Whether lost ranks are replaced without being asked."""
        return self._owner.replaces_lost

    def notify(self, run: Run | None = None) -> None:
        """Notify the observers of a change; with a run where that has begun or ended."""
        self._owner.notify(run)

    def why_lost(self) -> str | None:
        """Return why the ranks were lost, as text; None while they live."""
        return None if self.lost is None else describe(self.lost.fault)

    def ids(self) -> list[str]:
        """Return the runs' ids."""
        with self._lock:
            return sorted(self._runs)

    def prepares_horovod(self, code: str, *, always: bool) -> bool:
        """Return whether Horovod must be initialised on all ranks before a cell that is about to begin."""
        return self._horovod.begins_with(code, always=always)

    @property
    def uses_horovod(self) -> bool:
        """Whether code on the ranks has called `hvd.init()`, or variables of such ranks are on them."""
        return self._horovod.is_used

    def expect_horovod(self) -> None:
        """Note that variables of ranks that have called `hvd.init()` are on these: code may need it without."""
        self._horovod.is_used = True

    def follow(self, run: Run, release: Callable[[str], None]) -> None:
        """Have `release` called with the reason where all runs are released; it must end this one."""
        with self._lock:
            self._followers[run.id] = release

    def begin(self, run: Run) -> None:
        """Route events to a run from here on."""
        # Without the lock: it waits while idle ranks are ended.
        self._cluster.use.hold()
        with self._lock:
            self._runs[run.id] = run
            lost = self.lost
            self._owner.run_began(self, run)
        if lost is not None:
            run.take(lost)
        self._cluster.supervisor.attend(self.busy_ranks)
        self.notify(run)

    def busy_ranks(self) -> set[int]:
        """Return the ranks on which a run is pending."""
        with self._lock:
            return set().union(*(set(run.pending) for run in self._runs.values() if run.lost is None))

    def held(self) -> list[RankHeld]:
        """Return the ranks that are held in the debugger, and where."""
        with self._lock:
            return [held for run in self._runs.values() if run.lost is None for held in run.held.values()]

    def drop(self, run: Run) -> None:
        """Remove a run that no rank was sent."""
        with self._lock:
            self._followers.pop(run.id, None)
            self._remove(run)
        self.notify()

    def resume(self, run: Run) -> None:
        """Route to another kernel's run all its events: the past ones, and those to come."""
        run.is_resumed = True
        self._cluster.use.hold()
        with self._lock:
            # What comes meanwhile waits for the lock.
            self._cluster.files.bring(run.id)
            for event in run.recorder.catch_up(run.ranks, self._cluster.on_our_clock):
                run.events.put(event)
            self._runs[run.id] = run
            self._owner.run_began(self, run)
        self._cluster.supervisor.attend(self.busy_ranks)
        self.notify(run)

    def release(self, run: Run, reason: str) -> None:
        """Release a run's ranks; those on which it has ended too, since others may wait in a collective with them."""
        self.last_released = run.id
        self._cluster.send(Release(run.id, reason), sorted(run.ranks), now=True)

    def ask(self, run: Run) -> None:
        """Ping the ranks on which a run is pending."""
        self._cluster.send(Ping(), sorted(run.pending), now=True)

    def importing(self, run: Run) -> set[int]:
        """Return the pending ranks of a run that have not imported TensorFlow yet."""
        return set(run.pending) - self._cluster.warm.keys()

    def state_of(self, rank: int) -> RankProcess:
        """Return what is known of a rank's process."""
        return self._cluster.supervisor.state_of(rank)

    def starve(self, run: Run) -> bool:
        """Return whether a pending rank of a run is ready to run, and gets no core."""
        return any(self._cluster.supervisor.starves(rank) for rank in sorted(run.pending))

    def give_up(self, fault: Fault) -> None:
        """Treat a cluster with live processes as lost: they are ended, and replaced where that is wanted."""
        self._on_event(RankLost(None, fault, fault.at_s))

    def release_all(self, reason: str) -> None:
        """Release every rank from its run, also from another kernel's.

        The follower of each run, in this kernel or another, then ends it.
        """
        with self._lock:
            runs = list(self._runs.values())
        others = set(range(self._cluster.world_size)).difference(*(run.pending for run in runs))
        self._release(runs, reason)
        if others:
            self._cluster.send(Release("", reason), sorted(others), now=True)
            self._cluster.announce(reason)

    def _release(self, runs: Sequence[Run], reason: str) -> None:
        for run in runs:
            follower = self._followers.get(run.id)
            if follower is None:
                self.release(run, reason)
            else:
                follower(reason)

    def end(self, run: Run) -> None:
        """End a run: Horovod rests until the next one.

        A rank that did not answer its release keeps the run active until it does: no cell may queue behind it.
        """
        with self._lock:
            run.take_what_came()
            rests = self._settles(run)
        if not run.abandoned and run.lost is None:
            self._cluster.files.bring_soon(run.id)
        if rests:
            self._cluster.send(RestHorovod(run.id, self._horovod.asked_for), range(self._cluster.world_size))
        self.notify(run)

    def _settles(self, run: Run) -> bool:
        """Note that a run is no longer followed; return whether Horovod rests now. Called under the lock."""
        run.abandoned = bool(run.pending) and run.lost is None
        self._followers.pop(run.id, None)
        if not run.abandoned:
            self._remove(run)
        return run.lost is None and self._horovod.rests_after(
            uses_horovod=run.uses_horovod, runs=run.horovod_runs, idle=not self._runs
        )

    def _remove(self, run: Run) -> None:
        """Remove a run from the active ones. Called under the lock."""
        if self._runs.pop(run.id, None) is None:
            return
        self._cluster.use.free()
        if not self._runs:
            self._owner.runs_ended(self, run)

    def bring_last_files(self, run: Run) -> None:
        """Bring the files of a run whose ranks are lost, from hosts that share no folder."""
        self._cluster.files.bring(run.id, has_ended=True)

    def leave(self) -> None:
        """Note in the active runs' folders that no kernel records them: one that attaches may."""
        with self._lock:
            for run in self._runs.values():
                run.folder.update(session=None)
        self._cluster.use.close()

    def stuck(self) -> str | None:
        """Return the ranks that did not answer their release, as text; None where there are none."""
        with self._lock:
            ranks = {rank for run in self._runs.values() if run.abandoned for rank in run.pending}
        return compact(sorted(ranks)) if ranks else None

    def _on_event(self, event: Event) -> None:
        """Route an event to the runs that it concerns. Called in the channel's thread."""
        if isinstance(event, ReleaseAsked):
            self._on_release_asked(event)
            return
        if isinstance(event, HorovodAsked):
            self._on_horovod_asked(event)
            return
        with self._lock:
            if isinstance(event, RankLost) and not self._note_loss(event):
                return
            runs = [run for run in self._runs.values() if _concerns(event, run)]
            if isinstance(event, RankAlive | CellRaised):
                for run in runs:
                    (run.raised if isinstance(event, CellRaised) else run.unwinding).add(event.rank)
                return
        # Without the lock: the record waits for the disk, and a stop must not.
        for run in runs:
            _take(run, event)
        with self._lock:
            late = [run for run in runs if run.abandoned]
        for run in late:
            self.end(run)
        if isinstance(event, RankLost | RankSilent):
            self.notify()

    def _note_loss(self, lost: RankLost) -> bool:
        """Note how the ranks ended; return False where that was known. Called under the lock."""
        if self._loss is not None:
            return False
        self._loss = _Loss(lost, self._owner.lose(self, lost, list(self._runs.values())))
        return True

    def _on_horovod_asked(self, asked: HorovodAsked) -> None:
        """Have all ranks initialise Horovod, beside what they run."""
        with self._lock:
            run = self._runs.get(asked.run)
            starts = run is not None and run.lost is None and self._horovod.starts(run.id)
        if starts and run is not None:
            on_subset = len(run.ranks) < self._cluster.world_size
            self._cluster.send(PrepareHorovod(run.id, on_subset), range(self._cluster.world_size), now=True)

    def _on_release_asked(self, event: ReleaseAsked) -> None:
        """End the runs from which another kernel released the ranks."""
        if event.kernel == self._cluster.kernel:
            return
        with self._lock:
            runs = [run for run in self._runs.values() if run.folder.start_s <= event.at_s and run.lost is None]
        self._release(runs, event.reason)


def _take(run: Run, event: Event) -> None:
    """Pass a run an event; whatever its recorder or figures raise, the event reaches its follower."""
    try:
        run.take(event)
    except Exception as error:  # noqa: BLE001  an observer's error must not stop the events that end a run
        print_error(error)


def _concerns(event: Event, run: Run) -> bool:
    if isinstance(event, RankSilent):
        return event.rank in run.pending
    if isinstance(event, RankAlive):
        return event.interrupted == run.id
    return isinstance(event, RankLost) or getattr(event, "run", None) == run.id
