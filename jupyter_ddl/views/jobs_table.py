"""Formats the table of batch jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.protocol.number_texts import counted, time_left

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = ("job", "name", "state", "nodes", "time left", "")


@dataclass(frozen=True)
class JobRow:
    """What the table shows of a job.

    Attributes:
        job: as the scheduler names it.
        name: the cluster's.
        state: "waiting", "running" or "ending".
        reason: why it waits, in the scheduler's words.
        nodes: where it runs.
        ahead: the jobs before it in the queue; None where that is not known.
        ends_at_s: when its wall time is over, in seconds since the epoch.
        attached: whether this notebook uses it.
    """

    job: str
    name: str
    state: str
    reason: str = ""
    nodes: tuple[str, ...] = ()
    ahead: int | None = None
    ends_at_s: float | None = None
    attached: bool = False


def jobs_table(rows: Sequence[JobRow], now_s: float | None = None) -> str:
    """Return a line a job as aligned text."""
    if not rows:
        return "No job of yours brings ranks. %ddl submit sends one."
    now_s = time.time() if now_s is None else now_s
    cells = [_COLUMNS, *(_cells(row, now_s) for row in rows)]
    return "\n".join(aligned(cells))


def _cells(row: JobRow, now_s: float) -> tuple[str, ...]:
    state = row.state
    if row.state == "waiting":
        details = [row.reason] if row.reason else []
        details += [] if row.ahead is None else [f"{counted(row.ahead, 'job')} before it"]
        state += f" ({', '.join(details)})" if details else ""
    left = "" if row.ends_at_s is None else time_left(row.ends_at_s - now_s)
    return row.job, row.name, state, ",".join(row.nodes), left, "attached" if row.attached else ""
