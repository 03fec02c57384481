"""Compares the clock of another host with this one's, by pings.

A ping that took long says little: its answer was made at any time between. So the quickest of several counts, and the
error is at most half of its round trip. Source: RFC 5905, section 8, where NTP does the same.
"""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PINGS = 8
# A scheduler's command may hand on no input: the program there does not wait for it for ever.
_NO_PING_S = 2.0
# How far an answer that no ping caused may be from now: the way of a command's output through a login and a scheduler.
_WAY_S = 0.5


@dataclass(frozen=True)
class Ping:
    """One ping: when it was sent, by our clock; when it was answered, by the other; when the answer came, by ours."""

    sent_s: float
    there_s: float
    received_s: float

    @property
    def round_trip_s(self) -> float:
        """How long it took, in seconds."""
        return self.received_s - self.sent_s

    @property
    def offset_s(self) -> float:
        """The other clock minus ours, in seconds, if both ways took equally long."""
        return self.there_s - (self.sent_s + self.received_s) / 2


def clock_offset_s(pings: Iterable[Ping], there_s: float, received_s: float) -> float:
    """Return the other clock minus ours, in seconds; 0 where they differ by no more than can be seen.

    Args:
        pings: those that were answered.
        there_s: a time by the other clock, which counts where no ping was answered.
        received_s: when that came here.
    """
    # A clock that is set meanwhile could make a round trip negative.
    quickest = min((one for one in pings if one.round_trip_s >= 0), key=lambda one: one.round_trip_s, default=None)
    offset_s, error_s = (
        (there_s - received_s, _WAY_S) if quickest is None else (quickest.offset_s, quickest.round_trip_s / 2)
    )
    return offset_s if abs(offset_s) > error_s else 0.0


def answer_pings() -> None:
    """Answer each byte of standard input with the time, until it ends.

    Runs on: the other host.
    """
    # Not by sys.stdin, whose buffer would hide from select what has come.
    while select.select([0], [], [], _NO_PING_S)[0] and os.read(0, 1):
        print(time.time(), flush=True)
