"""Defines the events by which a rank answers a request for what it knows: they belong to no run's record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jupyter_ddl.protocol.codec import Int64, Wire
from jupyter_ddl.protocol.faults import Frame  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.host_topology import HostTopology  # noqa: TC001  likewise


@dataclass(frozen=True)
class RankStacks(Wire):
    """Where a rank's Python threads are, as a LookAtStacks asks.

    Attributes:
        look: the request's.
        threads: the main thread first. Each has its `name`, and its `frames`, outermost first, each a list: file, line,
            function, and the line's text where it is a cell's or a script's ("" elsewhere). A frame without a file
            stands for others that are left out; its function says how many.
        note: what else is known of how the stacks were read, or why they were not; "" for nothing.
    """

    type: ClassVar[str] = "rank_stacks"
    look: str
    rank: Int64
    host: str
    threads: tuple[dict[str, Any], ...]
    note: str = ""


@dataclass(frozen=True)
class RankProfile(Wire):
    """Where a rank's main thread was for some seconds, as a ProfileRank asks: calls, with how often each was seen.

    Call number i is at `frames[places[i]]`, was called by call `parents[i]` (an earlier one; -1 for none), and was the
    innermost one in `counts[i]` samples.

    Attributes:
        look: the request's.
        ticks: how many samples were due.
        samples: how many were taken. For the others C code kept Python's lock, or the rank had no core.
        frames: the places; a line's text is there where it is a cell's. One without a file stands for others.
        note: what else is known, as where the profile ended early; "" for nothing.
        problem: why there is no profile; None where there is one.
    """

    type: ClassVar[str] = "rank_profile"
    look: str
    rank: Int64
    host: str
    ticks: Int64 = 0
    samples: Int64 = 0
    frames: tuple[Frame, ...] = ()
    parents: tuple[Int64, ...] = ()
    places: tuple[Int64, ...] = ()
    counts: tuple[Int64, ...] = ()
    note: str = ""
    problem: str | None = None


@dataclass(frozen=True)
class LookedUp(Wire):
    """What a rank answers to LookUp.

    Attributes:
        look: the request's.
        content: of "complete": matches, start, end; of "inspect": data, found.
    """

    type: ClassVar[str] = "looked_up"
    look: str
    rank: Int64
    content: dict[str, Any]


@dataclass(frozen=True)
class RankDebugged(Wire):
    """What a rank answers to DebugRank.

    Attributes:
        look: the request's.
        answer: a response of the Debug Adapter Protocol.
    """

    type: ClassVar[str] = "rank_debugged"
    look: str
    rank: Int64
    answer: dict[str, Any]


@dataclass(frozen=True)
class HostDescribed(Wire):
    """What a rank's host has, as DescribeHost asks; the first rank of a script on each host sends it unasked."""

    type: ClassVar[str] = "host_described"
    rank: Int64
    host: str
    topology: HostTopology
