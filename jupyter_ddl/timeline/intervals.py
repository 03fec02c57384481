"""Measures unions of intervals of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals that do not touch, in order, which cover what these cover.

    Example:
        >>> union([(5, 6), (0, 2), (1, 3)])
        [(0, 3), (5, 6)]
    """
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def length(intervals: Iterable[Interval]) -> float:
    """Return how long the union of these is.

    Example:
        >>> length([(0, 2), (1, 3), (5, 6)])
        4
    """
    return sum(end - begin for begin, end in union(intervals))


def until(intervals: Iterable[Interval], moment: float) -> list[Interval]:
    """Return the parts of these that lie before a moment."""
    return [(begin, min(end, moment)) for begin, end in intervals if begin < moment]


def within(intervals: Iterable[Interval], bounds: Interval) -> list[Interval]:
    """Return the parts of these that lie between two moments."""
    first, last = bounds
    return [(max(begin, first), min(end, last)) for begin, end in intervals if end > first and begin < last]
