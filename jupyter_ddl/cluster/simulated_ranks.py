"""Simulates ranks in this process: a `RankTransport` with which the kernel's side is tested in milliseconds.

Each rank does the steps of its program when a cell is sent to it, and answers requests as real ranks do, by a clock
that advances only while the code that follows the run waits by it. The same programs always give the same events, in
the same order. It does not show what only real ranks do: Horovod's own behaviour, signals in C code, a process's death.

`simulated_steps` has the steps.

Runs on: kernel; tests and other code that tries out a follower.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from jupyter_ddl.cluster.deaths import Death, loss_of
from jupyter_ddl.cluster.simulated_steps import Collective, Compute, Die, Print, Raise, Stuck, Tidy
from jupyter_ddl.cluster.supervisor import SILENT_S
from jupyter_ddl.protocol.events import CollectiveStalled, OutputChunk, RankFailed, RankFinished
from jupyter_ddl.protocol.faults import Facts, Fault, Frame, RankProcess
from jupyter_ddl.protocol.rank_answers import RankProfile, RankStacks
from jupyter_ddl.protocol.rank_life import RankAlive, RankLost, RankReady, RankSilent
from jupyter_ddl.protocol.requests import CellRaised, Describe, LookAtStacks, Ping, ProfileRank, Release, RunCell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jupyter_ddl.cluster.simulated_steps import Program, Step
    from jupyter_ddl.host.clock import SimulatedClock
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.requests import Request

HOST = "simulated"
SHUT_DOWN = "Horovod has been shut down. This was caused by an exception on one of the ranks"
# How long a request or an answer travels; and after how long the other ranks see Horovod's end.
LATENCY_S = 0.001
NOTICE_S = 0.005
_PID = 4710


class SimulatedRanks:
    """The ranks of one world: a `RankTransport`.

    Args:
        programs: rank -> what it does with each cell, step by step; every rank has one.
        clock: the clock of the ranks, and of the code that follows their runs.
        on_event: called with each event, while code waits by the clock.
    """

    def __init__(
        self, programs: Mapping[int, Program], clock: SimulatedClock, on_event: Callable[[Event], None]
    ) -> None:
        self.clock = clock
        self.world_size = len(programs)
        self._on_event = on_event
        self._began_at_s = time.time() - clock.now_s()
        self._ranks = {rank: _Rank(self, rank, program) for rank, program in programs.items()}
        self._is_closed = False

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:  # noqa: ARG002
        """Send a request. A simulated rank has no turn: it does nothing between its cells."""
        for rank in ranks:
            self.clock.after(LATENCY_S, lambda rank=rank: self._ranks[rank].take(request))  # type: ignore[misc]

    def close(self) -> None:
        """Deliver no more events."""
        self._is_closed = True

    # What the ranks call.

    def emit(self, event: Event | CellRaised) -> None:
        """Deliver an event, after its latency."""
        self.clock.after(LATENCY_S, lambda: None if self._is_closed else self._on_event(cast("Event", event)))

    def at_s(self) -> float:
        """Return the simulated time, seconds since the epoch."""
        return self._began_at_s + self.clock.now_s()

    def enter(self, collective: Collective, run: RunCell) -> None:
        """End a collective where the last of a run's ranks has entered it."""
        ranks = [self._ranks[rank] for rank in run.ranks]
        if all(one.waits_in == collective for one in ranks):
            for one in ranks:
                self.clock.after(0.0, one.go_on)

    def missing(self, collective: Collective, run: RunCell) -> list[int]:
        """Return the run's ranks that have not entered a collective."""
        return [rank for rank in run.ranks if self._ranks[rank].waits_in != collective]

    def shut_down(self, run: RunCell) -> None:
        """End the collectives of a run's ranks: one of them has raised."""
        for rank in run.ranks:
            self.clock.after(NOTICE_S, self._ranks[rank].lose_collective)

    def die(self, rank: int, signum: int) -> None:
        """End all ranks, as mpiexec does where one ends."""
        for one in self._ranks.values():
            one.end()
        death = Death(rank, HOST, _PID + rank, signum, None)
        self.emit(RankLost(rank, loss_of(death, self.at_s()), self.at_s()))


class _Rank:
    """One rank. What it waits for is a call that the clock schedules, and that the rank's next step cancels."""

    def __init__(self, world: SimulatedRanks, rank: int, program: Program) -> None:
        self._world = world
        self._rank = rank
        self._program = program
        self._run: RunCell | None = None
        self._rest: Iterator[Step] = iter(())
        self._step: Step | None = None
        # Counts what it began to do: a call that was scheduled in an earlier turn does nothing.
        self._turn = 0
        self._n = 0
        self._tidy_s = 0.0
        self._unwinds: str | None = None
        self._release: Release | None = None
        # While it answers nothing: since when, and whether that was reported.
        self._since_s, self._is_silent = 0.0, False
        self._is_alive = True

    @property
    def waits_in(self) -> Collective | None:
        """The collective that it has entered, and not left by an interrupt; None where it is in none."""
        return self._step if isinstance(self._step, Collective) and self._unwinds is None else None

    @property
    def _answers(self) -> bool:
        return self._is_alive and not isinstance(self._step, Stuck)

    def take(self, request: Request) -> None:
        """Handle a request, as `engine.handlers` does."""
        if not self._is_alive:
            return
        if isinstance(request, RunCell):
            self._begin(request)
        elif isinstance(request, Release):
            self._take_release(request)
        elif not self._answers:
            return
        elif isinstance(request, Ping):
            self._world.emit(RankAlive(self._rank, self._unwinds))
        elif isinstance(request, Describe):
            size = self._world.world_size
            self._world.emit(RankReady(self._rank, size, self._rank, HOST, _PID + self._rank, "CPU", 1))
        elif isinstance(request, LookAtStacks):
            where = {"name": "MainThread", "frames": [["cell", 1, type(self._step).__name__, ""]]}
            self._world.emit(RankStacks(request.look, self._rank, HOST, (where,)))
        elif isinstance(request, ProfileRank):
            self._world.clock.after(request.seconds, lambda: self._profile(request))

    def _profile(self, request: ProfileRank) -> None:
        """Send a profile that saw one step all the time: the one at its end."""
        ticks = round(request.seconds * request.hz)
        frames = (Frame("cell", 1, type(self._step).__name__),)
        self._world.emit(RankProfile(request.look, self._rank, HOST, ticks, ticks, frames, (-1,), (0,), (ticks,)))

    def go_on(self) -> None:
        """Do the next step."""
        run = self._run
        if run is None:
            return
        self._turn += 1
        if self._is_silent:
            self._report_silence(is_back=True)
        self._step = step = next(self._rest, None)
        if self._release is not None and not isinstance(step, Stuck):
            # It came while the rank could not be interrupted.
            self._interrupt(self._release)
        elif step is None:
            self._n += 1
            self._run = None
            self._world.emit(RankFinished(run.run, self._rank, self._world.at_s(), n=self._n))
        elif isinstance(step, Compute):
            self._after(step.seconds, self.go_on)
            if isinstance(step, Stuck):
                self._since_s = self._world.at_s()
                self._in_turn(SILENT_S, self._report_silence)
        elif isinstance(step, Collective):
            self._enter(step, run)
        elif isinstance(step, Raise):
            self._world.emit(CellRaised(run.run, self._rank))
            self._after(step.report_s, self._fail, step.name, step.message, False)
            self._world.shut_down(run)
        elif isinstance(step, Die):
            self._world.die(self._rank, step.signum)
        else:
            self._pass(step, run)

    def lose_collective(self) -> None:
        """End with Horovod's error, where it is in a collective."""
        if self._run is not None and self.waits_in is not None:
            self._fail("HorovodInternalError", SHUT_DOWN, released=True)

    def end(self) -> None:
        """End the process."""
        self._is_alive, self._run, self._step = False, None, None
        self._turn += 1

    def _begin(self, run: RunCell) -> None:
        steps = self._program.get(run.code, ()) if isinstance(self._program, Mapping) else self._program
        self._run, self._rest = run, iter(steps)
        self._n, self._tidy_s, self._release, self._unwinds = 0, 0.0, None, None
        self.go_on()

    def _pass(self, step: Print | Tidy, run: RunCell) -> None:
        """Do what takes no time."""
        if isinstance(step, Tidy):
            self._tidy_s = step.seconds
        else:
            self._n += 1
            end_bytes = len(step.text.encode())
            chunk = OutputChunk(run.run, self._rank, step.stream, step.text, 0, self._world.at_s(), end_bytes, self._n)
            self._world.emit(chunk)
        self.go_on()

    def _enter(self, collective: Collective, run: RunCell) -> None:
        self._world.enter(collective, run)
        after_s = run.options.stalls.after_s
        if after_s is not None:
            # Horovod checks four times as often.
            self._after(after_s / 4, self._report_stall, after_s / 4)

    def _report_stall(self, every_s: float) -> None:
        """Report the missing ranks, as Horovod's coordinator does: the first rank that waits."""
        run, collective = self._run, self.waits_in
        if run is None or collective is None:
            return
        missing = self._world.missing(collective, run)
        if missing and self._rank == next(rank for rank in run.ranks if rank not in missing):
            self._n += 1
            names = {str(rank): [collective.tensor] for rank in missing}
            self._world.emit(
                CollectiveStalled(
                    run.run, self._rank, self._world.at_s(), every_s, (collective.tensor,), names, n=self._n
                )
            )
        self._after(every_s, self._report_stall, every_s)

    def _report_silence(self, *, is_back: bool = False) -> None:
        """Report, as the cluster's supervisor does, that the rank does not answer, or that it does again."""
        self._is_silent = not is_back
        at_s, process = self._world.at_s(), RankProcess(self._rank, "sleeping", _PID + self._rank, HOST)
        seconds = at_s - self._since_s
        fault = Fault(
            "silent", "rank", (self._rank,), HOST, self._since_s, facts=Facts(seconds=seconds, processes=(process,))
        )
        self._world.emit(RankSilent(self._rank, seconds, None if is_back else fault, at_s, is_back=is_back))

    def _take_release(self, release: Release) -> None:
        if self._run is None or release.run not in ("", self._run.run):
            return
        if isinstance(self._step, Raise):
            # Its own exception stays a cause.
            return
        if self._answers and self._unwinds is None:
            self._interrupt(release)
        else:
            self._release = self._release or release

    def _interrupt(self, release: Release) -> None:
        """Raise KeyboardInterrupt in the cell, which may then take a while to end."""
        assert self._run is not None
        self._release, self._unwinds = release, self._run.run
        self._after(self._tidy_s, self._fail, "KeyboardInterrupt", "", True)

    def _fail(self, name: str, message: str, released: bool) -> None:
        run = self._run
        if run is None:
            return
        self._turn += 1
        self._n += 1
        self._run, self._step, self._unwinds = None, None, None
        reason = self._release.reason if self._release is not None and released else None
        line = f"{name}: {message}" if message else name
        at_s = self._world.at_s()
        self._world.emit(
            RankFailed(run.run, self._rank, HOST, name, message, (line,), released, at_s, reason=reason, n=self._n)
        )

    def _after(self, seconds: float, do: Callable[..., None], *arguments: Any) -> None:
        """Call `do` after some seconds, unless the rank begins something else before."""
        self._turn += 1
        self._in_turn(seconds, do, *arguments)

    def _in_turn(self, seconds: float, do: Callable[..., None], *arguments: Any) -> None:
        """Call `do` after some seconds, if the rank does the same then."""
        turn = self._turn
        self._world.clock.after(seconds, lambda: do(*arguments) if turn == self._turn else None)
