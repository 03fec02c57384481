"""What a script on its ranks came to: an exit status, and what is to be told.

Runs on: the terminal's process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.deaths import mpiexec_loss
from jupyter_ddl.protocol.events import RankFailed
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.runs.ending import raised
from jupyter_ddl.views.fault import render_fault

if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import RankFinished

# As shells have it: 128 and the number of the signal that ended a process.
SIGNALLED = 128
INTERRUPTED = 130
EXIT = "SystemExit"
INTERRUPT = "KeyboardInterrupt"


@dataclass(frozen=True)
class Outcome:
    """What a script came to.

    Attributes:
        status: the exit status for the terminal.
        report: what is to be told on standard error; empty for nothing.
        fault: the same as data; None where the script ended as it should.
    """

    status: int
    report: str = ""
    fault: Fault | None = None


class Record:
    """What the ranks of one script said of themselves, and what was done to them.

    Attributes:
        pending: the ranks that have neither finished nor failed.
        interrupted: Ctrl-C came.
        ended_by: the signal that asked us to end.
        given_up: the ranks that were ended because they did not end by themselves.
    """

    def __init__(self, world_size: int) -> None:
        self.pending = set(range(world_size))
        self.interrupted = False
        self.ended_by: signal.Signals | None = None
        self.given_up: tuple[int, ...] = ()
        self._world_size = world_size
        self._failures: dict[int, RankFailed] = {}
        self._finished: list[int] = []

    def handle(self, event: RankFinished | RankFailed) -> None:
        """Take what a rank said of itself."""
        self.pending.discard(event.rank)
        if isinstance(event, RankFailed):
            self._failures[event.rank] = event
        else:
            self._finished.append(event.rank)

    def causes(self) -> list[RankFailed]:
        """Return what ranks raised by themselves, first first; where all were released, the first of those."""
        failures = sorted(self._failures.values(), key=lambda failure: failure.at_s)
        return [failure for failure in failures if not failure.released] or failures[:1]

    def outcome(self, status: int, log: str) -> Outcome:
        """Return what it came to, once all has ended.

        Args:
            status: mpiexec's exit status.
            log: what mpiexec printed.
        """
        at_s = time.time()
        if self.ended_by is not None:
            facts = Facts(signum=self.ended_by)
            return _told(SIGNALLED + self.ended_by, Fault("interrupted", "user", at_s=at_s, facts=facts))
        if self.interrupted and (self._failures or self.given_up or status):
            return self._interrupted(at_s)
        if self._failures:
            return self._failed()
        if not status:
            return Outcome(0)
        printed = "\n".join(line for line in log.splitlines() if line.strip(" -"))
        return _told(status, mpiexec_loss(status, printed, at_s))

    def _failed(self) -> Outcome:
        causes = self.causes()
        first = causes[0]
        status = int(first.message) if first.name == EXIT else INTERRUPTED if first.name == INTERRUPT else 1
        alike = [cause for cause in causes if (cause.name, cause.message) == (EXIT, first.message)]
        if len(alike) == self._world_size:
            return Outcome(status)  # every rank exited so, which is the script's own end
        aborted = sorted(self._failures.keys() - {cause.rank for cause in causes})
        fault = raised(causes, aborted, self._world_size)
        ended_before = tuple(self._finished) if first.released else ()
        return _told(status, replace(fault, facts=self._with_others(fault.facts, ended_before)), causes)

    def _interrupted(self, at_s: float) -> Outcome:
        """Return the first interrupted rank's traceback; ranks in a collective have only Horovod's error to show."""
        own = [failure for failure in self.causes() if not failure.released]
        interrupted = [failure for failure in self._failures.values() if failure.name == INTERRUPT]
        facts = self._with_others(Facts(world_size=self._world_size, error=INTERRUPT))
        return _told(INTERRUPTED, Fault("interrupted", "user", at_s=at_s, facts=facts), own or interrupted)

    def _with_others(self, facts: Facts, finished: tuple[int, ...] = ()) -> Facts:
        return replace(facts, finished=finished, killed=self.given_up)


def _told(status: int, fault: Fault, failures: Sequence[RankFailed] = ()) -> Outcome:
    return Outcome(status, render_fault(fault, failures, program="script"), fault)
