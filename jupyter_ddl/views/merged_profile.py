"""Merges the profiles of ranks into one tree of calls, and marks where a rank differs from the others.

A rank is marked at a place where its share of the time differs from the median share of the other ranks by `THRESHOLD`
or more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.cell_frames import is_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_ddl.protocol.faults import Frame
    from jupyter_ddl.protocol.rank_answers import RankProfile

THRESHOLD = 0.10
MISSED = "not sampled: C code kept Python's lock, or the rank had no core"
_LIBRARY = re.compile(r".*/(?:(?:site|dist)-packages|lib/python3\.\d+)/")


@dataclass(frozen=True)
class Place:
    """Where a call is.

    Attributes:
        where: as a user reads it: "cell line 3, in train", "keras/src/trainer.py:12, in fit".
        text: the line, where it is a cell's.
        is_own: it is a cell's.
    """

    where: str
    text: str = ""
    is_own: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.text else self.where


@dataclass
class Call:
    """A call of the merged tree.

    Attributes:
        place: where it is.
        parent: its caller's number; -1 for none.
        counts: rank -> samples in which it was seen.
        own: rank -> samples in which it was the innermost.
    """

    place: Place
    parent: int
    counts: dict[int, int] = field(default_factory=dict)
    own: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """Ranks that differ from the others at a place.

    Attributes:
        shares: rank -> its share of the time.
        gaps: rank -> how much more that is than the median share of the others.
        others: the median share of the ranks that do not differ; None where all do.
    """

    shares: dict[int, float]
    gaps: dict[int, float]
    others: float | None


@dataclass(frozen=True)
class Profile:
    """The merged profile of some ranks.

    Attributes:
        calls: a caller comes before what it calls.
        ticks: rank -> how many samples were due; those of ranks of which there is a profile.
        samples: rank -> how many were taken.
        hosts: of these ranks.
        notes: rank -> what else is known of it, also why there is no profile of it.
    """

    calls: tuple[Call, ...]
    ticks: dict[int, int]
    samples: dict[int, int]
    hosts: tuple[str, ...]
    notes: dict[int, str]

    def share(self, counts: Mapping[int, int], rank: int) -> float:
        """Return the part of a rank's time."""
        return counts.get(rank, 0) / self.ticks[rank]

    def mean(self, counts: Mapping[int, int]) -> float:
        """Return the mean of the ranks' shares."""
        return sum(self.share(counts, rank) for rank in counts) / len(self.ticks)

    def difference(self, counts: Mapping[int, int]) -> Difference | None:
        """Return which ranks differ from the others; None where none does."""
        return difference({rank: self.share(counts, rank) for rank in self.ticks})

    def differences(self) -> list[tuple[int, Difference]]:
        """Return where ranks differ, outermost first: the numbers of the calls from which on one does.

        What such a call calls differs too; it is left out, unless the rank differs by `THRESHOLD` more there, or the
        other way round.
        """
        found: list[tuple[int, Difference]] = []
        seen: list[dict[int, float]] = []
        for number, call in enumerate(self.calls):
            above = seen[call.parent] if call.parent >= 0 else {}
            here = self.difference(call.counts)
            new = {rank: gap for rank, gap in here.gaps.items() if _is_new(gap, above.get(rank))} if here else {}
            seen.append(above | new if new else above)
            if here is not None and new:
                found.append((number, here))
        return found


def _is_new(gap: float, above: float | None) -> bool:
    return above is None or gap * above < 0 or abs(gap) >= abs(above) + THRESHOLD


def difference(shares: Mapping[int, float]) -> Difference | None:
    """Return which ranks differ from the others at a place; None where none does.

    Args:
        shares: rank -> its share of the time there.
    """
    if len(shares) < 2 or max(shares.values()) - min(shares.values()) < THRESHOLD:
        return None
    ordered = sorted(shares.values())
    gaps = {rank: share - _median_without(ordered, share) for rank, share in shares.items()}
    gaps = {rank: gap for rank, gap in gaps.items() if abs(gap) >= THRESHOLD}
    rest = [share for rank, share in shares.items() if rank not in gaps]
    return Difference({rank: shares[rank] for rank in gaps}, gaps, median(rest) if rest else None) if gaps else None


def _median_without(ordered: Sequence[float], one: float) -> float:
    """Return the median of sorted numbers without `one` of them; of the two in the middle the one that is nearer to it.

    So of three ranks one may differ from the two others, which do not.
    """
    count = len(ordered) - 1
    # The number at an index once `one` is taken out.
    at = [ordered[i + 1] if ordered[i] >= one else ordered[i] for i in ((count - 1) // 2, count // 2)]
    return min(at, key=lambda value: abs(value - one))


def merge(profiles: Iterable[RankProfile]) -> Profile:
    """Return the merged profile of ranks."""
    calls: list[Call] = []
    numbers: dict[tuple[int, Place], int] = {}
    ticks: dict[int, int] = {}
    samples: dict[int, int] = {}
    notes: dict[int, str] = {}
    hosts: dict[str, None] = {}
    for profile in sorted(profiles, key=lambda one: one.rank):
        note = profile.problem or profile.note
        if note:
            notes[profile.rank] = note
        if profile.problem is not None or profile.ticks <= 0:
            continue
        hosts[profile.host] = None
        ticks[profile.rank], samples[profile.rank] = profile.ticks, profile.samples
        _add(profile, calls, numbers)
    return Profile(tuple(calls), ticks, samples, tuple(hosts), notes)


def _add(profile: RankProfile, calls: list[Call], numbers: dict[tuple[int, Place], int]) -> None:
    rank = profile.rank
    # Of the rank's calls: the number in the merged tree, and the file of the cell that runs.
    merged: list[tuple[int, str | None]] = []
    for parent, index, count in zip(profile.parents, profile.places, profile.counts, strict=True):
        caller, running = merged[parent] if parent >= 0 else (-1, None)
        frame = profile.frames[index]
        if running is None and frame.function == "<module>" and is_cell(frame.file):
            running = frame.file
        number = _number(calls, numbers, caller, _place(frame, running))
        merged.append((number, running))
        _count(calls, number, rank, count)
    missed = profile.ticks - profile.samples
    if missed > 0:
        _count(calls, _number(calls, numbers, -1, Place(MISSED)), rank, missed)


def _number(calls: list[Call], numbers: dict[tuple[int, Place], int], caller: int, place: Place) -> int:
    number = numbers.setdefault((caller, place), len(calls))
    if number == len(calls):
        calls.append(Call(place, caller))
    return number


def _count(calls: list[Call], number: int, rank: int, count: int) -> None:
    """Count samples whose innermost call this is, at its callers too."""
    if not count:
        return
    calls[number].own[rank] = calls[number].own.get(rank, 0) + count
    while number >= 0:
        call = calls[number]
        call.counts[rank] = call.counts.get(rank, 0) + count
        number = call.parent


def _place(frame: Frame, running: str | None) -> Place:
    if not frame.file:
        return Place(frame.function)
    inside = "" if frame.function == "<module>" else f", in {frame.function}"
    if is_cell(frame.file):
        where = f"cell line {frame.line}" if frame.file == running else f"line {frame.line} of another cell"
        return Place(f"{where}{inside}", frame.text, is_own=True)
    return Place(f"{_LIBRARY.sub('', frame.file)}:{frame.line}{inside}")
