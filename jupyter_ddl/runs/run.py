"""Tracks a run while it lasts: which ranks are pending, and what the others reported."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_ddl.host.clock import MONOTONIC
from jupyter_ddl.protocol.events import (
    MetricsSample,
    OutputChunk,
    ParametersLogged,
    RankFailed,
    RankFinished,
    RankHeld,
    RichOutput,
)
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.runs.reading import causes_of
from jupyter_ddl.runs.recorder import Recorder
from jupyter_ddl.runs.stragglers import Stragglers
from jupyter_ddl.runs.summary import Summary

if TYPE_CHECKING:
    from jupyter_ddl.host.clock import Clock
    from jupyter_ddl.protocol.events import Event, Outcome
    from jupyter_ddl.protocol.faults import Fault
    from jupyter_ddl.runs.folder import RunFolder

# How much of a rank's text a result keeps in memory; all of it is in the rank's log.
KEPT_CHARACTERS = 100_000


@dataclass
class RankResult:
    """The result of a cell on one rank.

    Attributes:
        value: the text of the cell's last expression; None where it has none.
        stdout: the end of what it printed, KEPT_CHARACTERS at most.
        stderr: likewise.
        failure: what it raised; None where it finished.
    """

    rank: int
    value: str | None = None
    stdout: str = ""
    stderr: str = ""
    failure: RankFailed | None = None


@dataclass(frozen=True)
class RunResult:
    """The result of a cell on its ranks.

    Attributes:
        run: the run's id.
        outcome: "finished", or how it ended otherwise.
        ranks: rank -> its result.
        folder: the run's folder, with each rank's whole log.
    """

    run: str
    outcome: Outcome
    seconds: float
    ranks: dict[int, RankResult] = field(repr=False)
    folder: str = field(repr=False)


class Run:
    """One run, whose follower passes it its events.

    Args:
        folder: the run's.
        ranks: that run it.
        world_size: of all ranks.
        clock: by which it is followed.

    Attributes:
        events: those that wait for the run's follower.
        recorder: writes all events into the run's folder.
        summary: of its metrics.
        pending: the ranks that have neither finished nor failed.
        seen_bytes: rank -> how much of its log the events hold.
        last_samples: rank -> its last sample.
        entered: rank -> how many collectives of all ranks it has entered, where its library counts them.
        unwinding: the ranks that reported that their code was interrupted.
        raised: the ranks whose cell has raised; their reports follow.
        lost: why the cluster was lost, or None.
        fault: why the run did not finish well; None where it did, and before its end.
        stall: who waits for whom, while a stall lasts; None otherwise.
        held: the ranks that the debugger holds, and where.
        abandoned: it was given up while ranks were pending.
        is_resumed: another kernel began it.
    """

    def __init__(self, folder: RunFolder, ranks: tuple[int, ...], world_size: int, clock: Clock = MONOTONIC) -> None:
        self.folder = folder
        self.clock = clock
        self.id = folder.run
        self.ranks = ranks
        self.world_size = world_size
        # Not a SimpleQueue: its get(timeout) waits for ever if a signal, such as the stop button's, comes just when the
        # time is up. Seen in Python 3.10 to 3.12; source: Modules/_queuemodule.c, the rest of the timeout below 0.
        self.events: queue.Queue[Event] = queue.Queue()
        self.recorder = Recorder(folder)
        self.pending = set(ranks)
        self.seen_bytes: dict[int, int] = {}
        self.results = {rank: RankResult(rank) for rank in ranks}
        self.uses_horovod = False
        self.horovod_runs = False
        self.last_samples: dict[int, MetricsSample] = {}
        self.entered: dict[int, int] = {}
        self.unwinding: set[int] = set()
        self.raised: set[int] = set()
        self.lost: RankLost | None = None
        self.fault: Fault | None = None
        self.stall: Fault | None = None
        self.held: dict[int, RankHeld] = {}
        self.abandoned = False
        self.is_resumed = False
        self.summary = Summary()
        self._stragglers = Stragglers()
        self._failures: list[RankFailed] = []
        self._began_s = clock.now_s() - (time.time() - folder.start_s)
        self._last_end_s = 0.0

    @property
    def is_over(self) -> bool:
        """Whether no rank is pending."""
        return not self.pending or self.lost is not None

    @property
    def seconds(self) -> float:
        """Seconds since it was sent; for a run that ended while no kernel was there, its duration on the ranks."""
        if self.is_resumed and not self.pending:
            return self._last_end_s - self.folder.start_s
        return self.clock.now_s() - self._began_s

    def next_event(self, timeout_s: float) -> Event | None:
        """Return the next event for the follower of the run; None where none comes within a time."""
        return self.clock.next_of(self.events, timeout_s)

    def take(self, event: Event) -> None:
        """Record an event as it comes, and queue it for the run's follower."""
        if not self.recorder.handle(event):
            return
        # Before all else: an observer's failure must not keep the run's end from its follower.
        self.events.put(event)
        mark = self._stragglers.handle(event) if isinstance(event, MetricsSample) else None
        if mark is not None:
            self.take(mark)

    def handle(self, event: Event) -> None:
        """Update the run by an event. Called by its follower."""
        if isinstance(event, OutputChunk):
            result = self.results[event.rank]
            kept = (getattr(result, event.stream) + event.text)[-KEPT_CHARACTERS:]
            setattr(result, event.stream, kept)
            # What a rank tells of its files stands in no log, and says so with 0.
            self.seen_bytes[event.rank] = max(self.seen_bytes.get(event.rank, 0), event.end_bytes)
        elif isinstance(event, RichOutput):
            if event.kind == "result":
                self.results[event.rank].value = event.data.get("text/plain")
        elif isinstance(event, MetricsSample):
            self.summary.handle(event)
            self.last_samples[event.rank] = event
        elif isinstance(event, ParametersLogged):
            self.summary.note_parameters(event)
        elif isinstance(event, RankFinished):
            self._end(event)
            self.uses_horovod |= event.uses_horovod
            self.horovod_runs |= event.horovod_runs
        elif isinstance(event, RankFailed):
            self._end(event)
            self.uses_horovod |= event.uses_horovod
            self.horovod_runs |= event.uses_horovod
            self.results[event.rank].failure = event
            self._failures.append(event)
        elif isinstance(event, RankLost):
            self.lost = event
        elif isinstance(event, RankHeld):
            self._hold(event)

    def _hold(self, event: RankHeld) -> None:
        # Not changed in place: other threads read it.
        others = {rank: held for rank, held in self.held.items() if rank != event.rank}
        self.held = {**others, event.rank: event} if event.file else others

    def _end(self, event: RankFinished | RankFailed) -> None:
        self.pending.discard(event.rank)
        self.held = {rank: held for rank, held in self.held.items() if rank != event.rank}
        if event.entered is not None:
            self.entered[event.rank] = event.entered
        self._last_end_s = max(self._last_end_s, event.at_s)

    @property
    def is_apart(self) -> bool:
        """Whether ranks have entered different numbers of collectives: the next one would join two different ones."""
        return len(set(self.entered.values())) > 1

    def take_what_came(self) -> None:
        """Take every event that still waits: the run has no follower any more."""
        while not self.events.empty():
            self.handle(self.events.get_nowait())

    def causes(self) -> list[RankFailed]:
        """Return what ranks raised by themselves, first first; where all were released, the first of those."""
        return causes_of(self._failures)

    def reasons(self) -> list[str]:
        """Return why ranks were released, first first, as far as they know; empty where one raised by itself.

        A rank that learned of it earlier, by Horovod's shutdown, does not know.
        """
        if any(not failure.released for failure in self.causes()):
            return []
        failures = sorted(self._failures, key=lambda failure: failure.at_s)
        return [failure.reason for failure in failures if failure.reason is not None]

    def released(self) -> list[int]:
        """Return the ranks that were released because others failed."""
        causes = {failure.rank for failure in self.causes()}
        return [rank for rank, result in self.results.items() if result.failure and rank not in causes]

    def result(self, outcome: Outcome) -> RunResult:
        """Return its result."""
        return RunResult(self.id, outcome, round(self.seconds, 4), dict(self.results), str(self.folder.path))
