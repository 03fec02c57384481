"""Gives the events of ranks on other hosts the times that this host's clock had: "who was first" holds between hosts.

Runs on: kernel, a script's terminal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from jupyter_ddl.protocol.events import (
    CollectiveStalled,
    EpochEnded,
    MetricsSample,
    OutputChunk,
    RankFailed,
    RankFinished,
)

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Event

    Taken = TypeVar("Taken", bound=Event)

# The events that carry a time by the clock of a rank's host: all others with a time are the session's own.
TIMED_ON_RANKS = (OutputChunk, MetricsSample, EpochEnded, RankFinished, RankFailed, CollectiveStalled)


def on_our_clock(event: Taken, offset_s: float) -> Taken:
    """Return a rank's event with its time as this host's clock had it.

    Args:
        event: the event.
        offset_s: the clock of the rank's host minus this one's, in seconds.
    """
    # A time of 0 stands for none.
    if offset_s and isinstance(event, TIMED_ON_RANKS) and event.at_s:
        return replace(event, at_s=event.at_s - offset_s)
    return event
