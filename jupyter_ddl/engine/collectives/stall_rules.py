"""Says which ranks wait in a collective, and which are missing there, by what each has noted of itself.

Those that have entered fewer collectives of a group are missing. Where all have entered as many, and are in different
ones, each is missing in the other's.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# How many collectives of a mismatch are named.
_NAMES = 6


@dataclass(frozen=True)
class Note:
    """What one rank notes of itself.

    Attributes:
        counts: group -> how many of its collectives it has entered.
        stands: it has not moved for as long as makes a stall.
        within: what it is in, as the program wrote it; None where that is not known.
        is_sure: it is in a collective for sure: backward() may just compute.
        has_ended: it has ended the cell.
    """

    counts: dict[str, int] = field(default_factory=dict)
    stands: bool = False
    within: str | None = None
    is_sure: bool = False
    has_ended: bool = False

    def is_behind(self, other: Note, group: str) -> bool:
        """Return whether this rank has not entered the collective of a group in which another one is."""
        if group not in self.counts:
            # It may have left the group, or not be in it yet: who does something else does not wait for it.
            return other.is_sure
        return self.counts[group] < other.counts[group]


@dataclass(frozen=True)
class Stall:
    """Who waits for whom.

    Attributes:
        waiting: the ranks that wait.
        missing: rank -> what it has not entered; None where that has no name.
        group: in which they have entered fewer; None where they have not.
    """

    waiting: tuple[int, ...]
    missing: Mapping[int, tuple[str | None, ...]]
    group: str | None = None


def _of_own(_group: str, _count: int) -> None:
    """Name no collective: those that are missing are in this rank's own."""


def stall_of(
    rank: int,
    notes: Mapping[int, Note],
    members: Mapping[str, tuple[int, ...]],
    following: Callable[[str, int], str | None] = _of_own,
) -> Stall | None:
    """Return the stall in which a rank is; None where it waits for none, or that is not known.

    Args:
        rank: one that stands.
        notes: rank -> what it noted; a rank that has noted nothing has entered nothing.
        members: group -> its ranks among all.
        following: returns what this rank calls the collective of a group that comes after so many.

    >>> stall_of(0, {0: Note({"0": 3}, True, "barrier"), 1: Note({"0": 2})}, {"0": (0, 1)})
    Stall(waiting=(0,), missing={1: ('barrier',)}, group='0')
    """
    own = notes[rank]
    # The smallest first: who waits in a group of some has often entered all of the others.
    for group, ranks in sorted(members.items(), key=lambda one: len(one[1])):
        members_notes = {one: notes.get(one, Note()) for one in ranks}
        behind = [one for one, note in members_notes.items() if note.is_behind(own, group)]
        if behind:
            entered = own.counts[group]
            waiting = tuple(one for one, note in members_notes.items() if note.counts.get(group) == entered)
            missing = {
                one: (following(group, members_notes[one].counts.get(group, 0)) or own.within,) for one in behind
            }
            return Stall(tuple(one for one in waiting if one not in behind), missing, group)
    everywhere = {one: notes.get(one, Note()) for ranks in members.values() for one in ranks}
    ended = [one for one, note in everywhere.items() if note.has_ended]
    if ended and own.is_sure:
        # One collective, of which gloo has returned on some ranks: they gave it something else.
        return Stall((rank,), dict.fromkeys(ended, (own.within,)))
    return _mismatch(own, everywhere)


def _mismatch(own: Note, notes: Mapping[int, Note]) -> Stall | None:
    """Return the stall of ranks that have entered as many collectives, and are in different ones."""
    names = sorted({note.within for note in notes.values() if note.within is not None})
    all_stand = all(note.stands and note.within and note.counts == own.counts for note in notes.values())
    if not all_stand or len(names) < 2:
        return None
    shown = names[:_NAMES]
    missing = {one: tuple(name for name in shown if name != note.within) for one, note in sorted(notes.items())}
    return Stall(tuple(sorted(notes)), missing)


def have_moved(stall: Stall, before: Mapping[int, Note], now: Mapping[int, Note]) -> bool:
    """Return whether a rank that is missing in a group has entered another collective of it meanwhile."""
    if stall.group is None:
        return False
    counts = [[notes.get(rank, Note()).counts.get(stall.group) for rank in stall.missing] for notes in (before, now)]
    return counts[0] != counts[1]
