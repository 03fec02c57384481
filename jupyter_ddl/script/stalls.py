"""Watches a script's run for stalls, by the watch of a cell's.

Horovod writes of a stall to a rank's standard error, which the terminal reads; the rank then reports it as an event,
since it knows whose ranks Horovod counts. The watch looks in a thread of its own; `reported` yields what it found.

Runs on: the terminal's process.
"""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.rank_stacks import StackLooks
from jupyter_ddl.kernel.stall_watch import StallWatch
from jupyter_ddl.protocol.events import CollectiveStalled
from jupyter_ddl.protocol.requests import ReportStall

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_ddl.protocol.cell_options import StallOptions
    from jupyter_ddl.protocol.events import Event, StallReported
    from jupyter_ddl.protocol.faults import Fault
    from jupyter_ddl.protocol.rank_life import RankReady
    from jupyter_ddl.protocol.transport import RankTransport
    from jupyter_ddl.runs.run import Run


class Stalls:
    """The stalls of one script's run.

    Args:
        run: the run.
        options: when they are reported, and what is done then.
        ready: rank -> what it reported of itself.
        ranks: where they are asked.
    """

    def __init__(self, run: Run, options: StallOptions, ready: Mapping[int, RankReady], ranks: RankTransport) -> None:
        self._ranks = ranks
        self._asked: set[int] = set()
        self._reports: queue.SimpleQueue[StallReported] = queue.SimpleQueue()
        # Their processes are not asked by signal.
        self._looks = StackLooks(ready, ranks)
        self._watch = StallWatch(run, options, self._looks.look, self._reports.put, "script")

    @property
    def aborts(self) -> Fault | None:
        """The fault for which the ranks are to be released; None where they are not."""
        return self._watch.fault if self._watch.aborts else None

    def found(self, stalled: CollectiveStalled) -> None:
        """Have the rank report a stall of which Horovod wrote there."""
        # One request at a time: a rank that does not read would leave its pipe full.
        if stalled.rank not in self._asked:
            self._asked.add(stalled.rank)
            self._ranks.send(ReportStall(stalled), [stalled.rank], now=True)

    def handle(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, CollectiveStalled):
            self._asked.discard(event.rank)
        self._watch.handle(event)
        self._looks.handle(event)

    def reported(self) -> Iterator[StallReported]:
        """Yield what the watch has reported since."""
        while not self._reports.empty():
            yield self._reports.get()
