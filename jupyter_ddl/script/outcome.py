"""Finds the outcome of a script on its ranks: an exit status, and the text of a failure.

Runs on: the terminal's process.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.deaths import Death, loss_of, mpiexec_loss, tail
from jupyter_ddl.cluster.exit_records import End, first_of
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.runs.ending import raised
from jupyter_ddl.views.fault import render_fault

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jupyter_ddl.protocol import events
    from jupyter_ddl.protocol.events import RankFailed
    from jupyter_ddl.protocol.script_frames import RankEnded
    from jupyter_ddl.runs.run import Run

# As shells have it: 128 plus the number of the signal that ended a process.
SIGNALLED = 128
INTERRUPTED = 130
EXIT = "SystemExit"
INTERRUPT = "KeyboardInterrupt"
_NAMES: dict[str, events.Outcome] = {
    "raised": "failed",
    "interrupted": "interrupted",
    "lost": "lost",
    "stalled": "stalled",
}


@dataclass(frozen=True)
class Outcome:
    """How a script ended.

    Attributes:
        status: the exit status for the terminal.
        report: the text for standard error; empty for none.
        fault: the same as data; None where the script ended as it should.
    """

    status: int
    report: str = ""
    fault: Fault | None = None

    @property
    def name(self) -> events.Outcome:
        """The outcome, as a run's record has it."""
        if self.fault is None:
            return "failed" if self.status else "finished"
        return _NAMES[self.fault.kind]


class Ending:
    """What was done to a script's ranks, and the outcome.

    Args:
        run: the run, with what its ranks reported.

    Attributes:
        interrupted: Ctrl-C came.
        stall: the stall for which the ranks were released.
        lost: the loss of a host, or a rank that held too much memory, for which the ranks were ended.
        ended_by: the signal that asked us to end.
        given_up: the ranks that were ended because they did not end by themselves.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.interrupted = False
        self.stall: Fault | None = None
        self.lost: Fault | None = None
        self.ended_by: signal.Signals | None = None
        self.given_up: tuple[int, ...] = ()

    def outcome(self, status: int, log: str, ended: Collection[RankEnded] | None = None) -> Outcome:
        """Return the outcome, once all processes have ended.

        Args:
            status: mpiexec's exit status.
            log: what mpiexec printed.
            ended: how each rank's process ended, of those whose relays have reported it; None where all ranks were on
                this host, and mpiexec's status says it.
        """
        at_s = time.time()
        failures = self._failures()
        if self.ended_by is not None:
            return signalled(self.ended_by)
        if self.lost is not None:
            is_killed = self.lost.facts.excess is not None
            return _told(SIGNALLED + signal.SIGKILL if is_killed else 1, self.lost)
        if self.interrupted and (failures or self.given_up or status):
            return self._interrupted(failures, at_s)
        if self.stall is not None and (failures or self.given_up or status):
            facts = self._with_others(replace(self.stall.facts, outcome="stalled"))
            return _told(1, replace(self.stall, facts=facts))
        if failures:
            return self._failed(failures)
        # An mpiexec that has lost a host may end with 0.
        if not status and (ended is None or len(ended) == self._run.world_size):
            return Outcome(0)
        printed = "\n".join(line for line in log.splitlines() if line.strip(" -"))
        loss = _loss(status, printed, at_s, ended or ())
        if ended is not None and loss.facts.signum is not None:
            # mpiexec's own is another one's: of a rank that had lost the first.
            status = SIGNALLED + loss.facts.signum
        return _told(status or 1, loss)

    def _failures(self) -> dict[int, RankFailed]:
        return {rank: one.failure for rank, one in self._run.results.items() if one.failure is not None}

    def _failed(self, failures: dict[int, RankFailed]) -> Outcome:
        run, causes = self._run, self._run.causes()
        first = causes[0]
        status = int(first.message) if first.name == EXIT else INTERRUPTED if first.name == INTERRUPT else 1
        alike = [cause for cause in causes if (cause.name, cause.message) == (EXIT, first.message)]
        if len(alike) == run.world_size:
            return Outcome(status)  # every rank exited so, which is the script's own end
        fault = raised(causes, sorted(run.released()), run.world_size)
        finished = tuple(rank for rank in run.ranks if rank not in failures and rank not in run.pending)
        ended_before = finished if first.released else ()
        return _told(status, replace(fault, facts=self._with_others(fault.facts, ended_before)), causes)

    def _interrupted(self, failures: dict[int, RankFailed], at_s: float) -> Outcome:
        """Return the outcome, with the first interrupted rank's traceback; in a collective it is Horovod's error."""
        own = [failure for failure in self._run.causes() if not failure.released]
        interrupted = [failure for failure in failures.values() if failure.name == INTERRUPT]
        facts = self._with_others(Facts(world_size=self._run.world_size, error=INTERRUPT))
        return _told(INTERRUPTED, Fault("interrupted", "user", at_s=at_s, facts=facts), own or interrupted)

    def _with_others(self, facts: Facts, finished: tuple[int, ...] = ()) -> Facts:
        return replace(facts, finished=finished, killed=self.given_up)


def signalled(signum: signal.Signals) -> Outcome:
    """Return the outcome of a script that ended because this process got a signal."""
    return _told(SIGNALLED + signum, Fault("interrupted", "user", at_s=time.time(), facts=Facts(signum=signum)))


def _loss(status: int, printed: str, at_s: float, ended: Collection[RankEnded]) -> Fault:
    """Return why the ranks were lost: the host, else the rank that ended first, else what mpiexec says."""
    fault = mpiexec_loss(status, printed, at_s)
    first = None if fault.subject == "host" else first_of(map(_end_of, (one for one in ended if not one.asked)))
    # On several hosts mpiexec often names a rank that has lost the first one.
    if first is None:
        return fault
    output = tail(printed)
    return loss_of(first.death, first.at_s, oom_kills=first.oom_kills, output=output, excess=first.excess)


def _end_of(one: RankEnded) -> End:
    signum = -one.status if one.status < 0 else None
    death = Death(one.rank, one.host, one.pid, signum, one.status if signum is None else None)
    return End(one.at_s, death, one.oom_kills, one.excess)


def _told(status: int, fault: Fault, failures: Sequence[RankFailed] = ()) -> Outcome:
    return Outcome(status, render_fault(fault, failures, program="script"), fault)
