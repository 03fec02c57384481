"""Finds in a run's folder why it did not finish well.

This version records the fault in the run's last event and in run.json. For a run of an older version, or one whose
kernel was killed, it is made from the outcome and the ranks' events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.protocol.events import RankFailed, RunFinished
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.runs.reading import causes_of
from jupyter_ddl.runs.store import CUT_OFF, as_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.runs.store import RunRecord

# How much of an exception's text is kept: all of it is in the rank's RankFailed.
_MESSAGE_CHARACTERS = 2_000


def raised(causes: Sequence[RankFailed], released: Sequence[int], world_size: int) -> Fault:
    """Return the fault of a run whose ranks raised.

    Args:
        causes: what ranks raised by themselves, first first; at least one.
        released: the ranks that ended because of it.
        world_size: the number of all ranks.
    """
    first = causes[0]
    facts = Facts(
        world_size=world_size,
        error=first.name,
        message=first.message[:_MESSAGE_CHARACTERS],
        released=tuple(released),
    )
    ranks = tuple(cause.rank for cause in causes)
    return Fault("raised", "ranks", ranks, first.host, first.at_s, facts=facts)


class Ending:
    """How a run ended, from its events.

    Attributes:
        has_events: anything was recorded.
    """

    def __init__(self) -> None:
        self._failures: dict[int, RankFailed] = {}
        self._lost: RankLost | None = None
        self._fault: Fault | None = None
        self.has_events = False

    def noted(self, events: Iterator[Event]) -> Iterator[Event]:
        """Yield the events, and keep what the fault needs."""
        for event in events:
            self.has_events = True
            if isinstance(event, RankFailed):
                self._failures[event.rank] = event
            elif isinstance(event, RankLost):
                self._lost = event
            elif isinstance(event, RunFinished):
                self._fault = event.fault
            yield event

    def causes(self) -> list[RankFailed]:
        """Return what ranks raised by themselves, first first."""
        return causes_of(self._failures.values())

    def fault(self, record: RunRecord) -> Fault | None:
        """Return why the run did not finish well; None where it did, or still runs."""
        return self._fault or record.fault or self._found(record)

    def _found(self, record: RunRecord) -> Fault | None:
        if self._lost is not None:
            return self._lost.fault
        facts = Facts(world_size=record.world_size, seconds=record.seconds)
        if record.state == CUT_OFF:
            return Fault("cut off", "kernel", record.ranks, facts=facts)
        if record.state == "interrupted":
            return Fault("interrupted", "user", record.ranks, facts=facts)
        if record.state == "stalled":
            return Fault("stalled", "ranks", record.ranks, facts=facts)
        if record.state == "timed out":
            limit_s = as_number(record.options.get("timeout_s"))
            return Fault("timed out", "ranks", record.ranks, facts=Facts(limit_s=limit_s, seconds=record.seconds))
        causes = self.causes()
        if not causes:
            return None
        return raised(causes, sorted(self._failures.keys() - {cause.rank for cause in causes}), record.world_size)
