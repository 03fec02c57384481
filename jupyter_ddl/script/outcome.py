"""What a script on its ranks came to: an exit status, and what is to be told.

Runs on: the terminal's process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.deaths import explain_mpiexec
from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.events import RankFailed
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.views.failure import render_failure

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
    """

    status: int
    report: str = ""


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
        if self.ended_by is not None:
            return Outcome(SIGNALLED + self.ended_by, f"Ended by {self.ended_by.name}.")
        if self.interrupted and (self._failures or self.given_up or status):
            return Outcome(INTERRUPTED, self._with_given_up(self._interrupt_report()))
        if self._failures:
            return self._failed()
        return Outcome(status, _lost_report(status, log) if status else "")

    def _failed(self) -> Outcome:
        causes = self.causes()
        first = causes[0]
        status = int(first.message) if first.name == EXIT else INTERRUPTED if first.name == INTERRUPT else 1
        alike = [cause for cause in causes if (cause.name, cause.message) == (EXIT, first.message)]
        if len(alike) == self._world_size:
            return Outcome(status)  # every rank exited so, which is the script's own end
        aborted = sorted(self._failures.keys() - {cause.rank for cause in causes})
        report = render_failure(RankError(causes, aborted, self._world_size))
        if causes[0].released and self._finished:
            report += f"\n\n{_ranks(self._finished)} had ended before, and Horovod with it"
        return Outcome(status, self._with_given_up(report))

    def _interrupt_report(self) -> str:
        """Return the first interrupted rank's traceback; ranks in a collective have only Horovod's error to show."""
        own = [failure for failure in self.causes() if not failure.released]
        interrupted = [failure for failure in self._failures.values() if failure.name == INTERRUPT]
        failures = own or interrupted
        return render_failure(RankError(failures, (), self._world_size)) if failures else INTERRUPT

    def _with_given_up(self, report: str) -> str:
        if not self.given_up:
            return report
        return f"{report}\n\n{_ranks(self.given_up)} had not ended by then, and had to be killed"


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {compact(ranks)}"


def _lost_report(status: int, log: str) -> str:
    tail = "\n".join(line for line in log.splitlines() if line.strip(" -"))
    return f"Ranks must live to the end of the script. Received: {explain_mpiexec(status, tail)}"
