"""Gives some steps as they are drawn: for each rank when it waited, and what the exchange was.

Of a step with thousands of tensors only unions of intervals are left, so that a browser gets as much as it shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.timeline.intervals import union, within

if TYPE_CHECKING:
    from jupyter_ddl.timeline.steps import Step


def picture_record(step: Step) -> dict[str, Any]:
    """Return a step; times in microseconds since the timeline's beginning."""
    exposed = (step.ready_us, step.end_us)
    phases = [phase for one in step.collectives for phase in one.exchanges]
    copies = [phase for one in step.collectives for phase in one.copies]
    return {
        "number": step.number,
        "begin_us": step.begin_us,
        "handed_us": list(step.handed_us.items()),
        "ready_us": step.ready_us,
        "end_us": step.end_us,
        "exchanges": union(within(phases, exposed)),
        "copies": union(within(copies, exposed)),
        "late": None if step.late is None else [step.late.rank, step.late.by_us, step.late.tensor],
    }
