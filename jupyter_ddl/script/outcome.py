"""Finds the outcome of a script on its ranks: an exit status, and the text of a failure.

Runs on: the terminal's process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.deaths import mpiexec_loss
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.runs.ending import raised
from jupyter_ddl.views.fault import render_fault

if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence

    from jupyter_ddl.protocol import events
    from jupyter_ddl.protocol.events import RankFailed
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
        ended_by: the signal that asked us to end.
        given_up: the ranks that were ended because they did not end by themselves.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.interrupted = False
        self.stall: Fault | None = None
        self.ended_by: signal.Signals | None = None
        self.given_up: tuple[int, ...] = ()

    def outcome(self, status: int, log: str) -> Outcome:
        """Return the outcome, once all processes have ended.

        Args:
            status: mpiexec's exit status.
            log: what mpiexec printed.
        """
        at_s = time.time()
        failures = self._failures()
        if self.ended_by is not None:
            return signalled(self.ended_by)
        if self.interrupted and (failures or self.given_up or status):
            return self._interrupted(failures, at_s)
        if self.stall is not None and (failures or self.given_up or status):
            facts = self._with_others(replace(self.stall.facts, outcome="stalled"))
            return _told(1, replace(self.stall, facts=facts))
        if failures:
            return self._failed(failures)
        if not status:
            return Outcome(0)
        printed = "\n".join(line for line in log.splitlines() if line.strip(" -"))
        return _told(status, mpiexec_loss(status, printed, at_s))

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


def _told(status: int, fault: Fault, failures: Sequence[RankFailed] = ()) -> Outcome:
    return Outcome(status, render_fault(fault, failures, program="script"), fault)
