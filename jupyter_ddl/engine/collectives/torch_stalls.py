"""Finds ranks that wait in a collective of torch.distributed which others have not entered, and says who is missing.

About once a second each rank notes in the store how many collectives it has entered in each group. A rank that has not
moved for half of `stall_after_s` reads what the others noted: those that have entered fewer are missing; where all have
entered as many, and are in different ones, each is missing in the other's.

Runs on: every rank, in a thread of its own from the first process group on. Nothing here imports torch.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_ddl.engine.collectives import torch_frames
from jupyter_ddl.protocol.events import CollectiveStalled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_ddl.engine.collectives.library import Turn

_LOOK_S = 1.0
# How many collectives of a mismatch are named.
_NAMES = 6


@dataclass(frozen=True)
class Note:
    """What one rank notes of itself.

    Attributes:
        counts: group -> how many of its collectives it has entered.
        stands: it has not moved for as long as makes a stall.
        within: what it is in, as the program wrote it.
        has_ended: it has ended the cell.
    """

    counts: dict[str, int] = field(default_factory=dict)
    stands: bool = False
    within: str = torch_frames.UNKNOWN
    has_ended: bool = False

    @property
    def is_in_collective(self) -> bool:
        """Whether it is in a collective for sure: backward() may just compute."""
        return self.within not in (torch_frames.UNKNOWN, torch_frames.BACKWARD)

    def is_behind(self, other: Note, group: str) -> bool:
        """Return whether this rank has not entered the collective of a group in which another one is."""
        if group not in self.counts:
            # It may have left the group, or not be in it yet: who does something else does not wait for it.
            return other.is_in_collective
        return self.counts[group] < other.counts[group]


@dataclass(frozen=True)
class Stall:
    """Who waits for whom.

    Attributes:
        waiting: the ranks that wait.
        missing: rank -> what it has not entered.
    """

    waiting: tuple[int, ...]
    missing: Mapping[int, tuple[str, ...]]


def stall_of(rank: int, notes: Mapping[int, Note], members: Mapping[str, tuple[int, ...]]) -> Stall | None:
    """Return the stall in which a rank is; None where it waits for none, or that is not known.

    Args:
        rank: one that stands.
        notes: rank -> what it noted; a rank that has noted nothing has entered nothing.
        members: group -> its ranks among all.

    >>> stall_of(0, {0: Note({"0": 3}, True, "barrier"), 1: Note({"0": 2})}, {"0": (0, 1)})
    Stall(waiting=(0,), missing={1: ('barrier',)})
    """
    own = notes[rank]
    # The smallest first: who waits in a group of some has often entered all of the others.
    for group, ranks in sorted(members.items(), key=lambda one: len(one[1])):
        members_notes = {one: notes.get(one, Note()) for one in ranks}
        behind = [one for one, note in members_notes.items() if note.is_behind(own, group)]
        if behind:
            entered = own.counts[group]
            waiting = tuple(one for one, note in members_notes.items() if note.counts.get(group) == entered)
            return Stall(tuple(one for one in waiting if one not in behind), dict.fromkeys(behind, (own.within,)))
    everywhere = {one: notes.get(one, Note()) for ranks in members.values() for one in ranks}
    ended = [one for one, note in everywhere.items() if note.has_ended]
    if ended and own.is_in_collective:
        # One collective, of which gloo has returned on some ranks: they gave it something else.
        return Stall((rank,), dict.fromkeys(ended, (own.within,)))
    return _mismatch(own, everywhere)


def _mismatch(own: Note, notes: Mapping[int, Note]) -> Stall | None:
    """Return the stall of ranks that have entered as many collectives, and are in different ones."""
    names = sorted({note.within for note in notes.values()})
    all_stand = all(note.stands and note.counts == own.counts for note in notes.values())
    if not all_stand or len(names) < 2 or torch_frames.UNKNOWN in names:
        return None
    shown = names[:_NAMES]
    missing = {one: tuple(name for name in shown if name != note.within) for one, note in sorted(notes.items())}
    return Stall(tuple(sorted(notes)), missing)


class TorchStalls:
    """The stalls of one rank.

    Args:
        rank: whose they are.
        world_size: the number of all ranks.
        groups: returns group -> this rank's count, and the group's ranks.
        connect: returns a connection of its own to the ranks' store; None while rank 0 does not serve it.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        groups: Callable[[], dict[str, tuple[int, tuple[int, ...]]]],
        connect: Callable[[], Any],
    ) -> None:
        self._rank = rank
        self._all = tuple(range(world_size))
        self._groups = groups
        self._connect = connect
        self._turn: Turn | None = None
        # A cell that has ended, which is still to be noted.
        self._to_end: Turn | None = None
        self._store: Any = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._forget()

    def begin_cell(self, turn: Turn) -> None:
        """Watch a cell from here on."""
        self._turn = turn

    def end_cell(self) -> None:
        """Watch nothing until the next cell."""
        self._to_end, self._turn = self._turn, None

    def watch(self) -> None:
        """Start to look, where that has not begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="jupyter_ddl torch stalls", daemon=True)
            self._thread.start()
            atexit.register(self._end)

    def _end(self) -> None:
        """Leave C++ code before Python ends: it must not be cut off there."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(2 * _LOOK_S)

    def _forget(self) -> None:
        self._run = ""
        self._place: object = None
        self._moved_s = time.monotonic()
        self._noted = ""
        self._suspected: Stall | None = None
        self._told_s = 0.0

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            turn = self._turn
            try:
                if turn is None:
                    self._note_end()
                elif turn.stall_after_s is not None and turn.report is not None:
                    self._look(turn.run, turn.stall_after_s, turn.report)
            except (RuntimeError, ValueError, OSError, msgspec.MsgspecError):
                # The store is busy, or gone with rank 0 or by a release, a group ends meanwhile, or another user of the
                # machine has written into the store: the next look connects again.
                self._store = None

    def _look(self, run: str, after_s: float, report: Callable[[CollectiveStalled], None]) -> None:
        if run != self._run:
            self._forget()
            self._run = run
        groups = self._groups()
        counts = {group: count for group, (count, _) in groups.items()}
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        place = torch_frames.place(frame), counts
        now_s = time.monotonic()
        if place != self._place:
            self._place, self._moved_s, self._suspected = place, now_s, None
        stood_s = now_s - self._moved_s
        stands = stood_s >= after_s / 2
        note = Note(counts, stands, torch_frames.collective(frame) if stands else torch_frames.UNKNOWN)
        del frame
        store = self._store = self._store or self._connect()
        if store is None:
            stall = Stall(self._all[1:], {0: (note.within,)}) if stands else None
        else:
            self._publish(store, note)
            stall = self._read(store, note, groups) if stands else None
        if stall is None or stall != self._suspected:
            # Seen twice: what the others noted may be a second old.
            self._suspected = stall
        elif self._is_due(stall, stood_s, after_s) and now_s - self._told_s >= after_s / 4:
            self._told_s = now_s
            names = tuple(sorted({name for missing in stall.missing.values() for name in missing}))
            told: dict[str, Any] = {str(rank): list(missing) for rank, missing in stall.missing.items()}
            report(CollectiveStalled(run, self._rank, time.time(), round(stood_s, 1), names, told))

    def _is_due(self, stall: Stall, stood_s: float, after_s: float) -> bool:
        """Return whether this rank reports: the first of those that wait does, and where that does not, each."""
        return self._rank == stall.waiting[0] or stood_s >= after_s * 0.75

    def _note_end(self) -> None:
        """Note that the cell has ended, also one that was over before the first look."""
        ended, self._to_end = self._to_end, None
        if ended is None or ended.stall_after_s is None:
            return
        self._forget()
        self._run = ended.run
        store = self._store = self._store or self._connect()
        if store is not None:
            counts = {group: count for group, (count, _) in self._groups().items()}
            self._publish(store, Note(counts, has_ended=True))

    def _publish(self, store: Any, note: Note) -> None:
        text = msgspec.json.encode(note).decode()
        if text != self._noted:
            store.set(self._key(self._rank), text)
            self._noted = text

    def _read(self, store: Any, own: Note, groups: Mapping[str, tuple[int, tuple[int, ...]]]) -> Stall | None:
        notes = {self._rank: own}
        for rank in self._all:
            if rank != self._rank and store.check([self._key(rank)]):
                notes[rank] = msgspec.json.decode(store.get(self._key(rank)), type=Note)
        return stall_of(self._rank, notes, {group: ranks for group, (_, ranks) in groups.items()})

    def _key(self, rank: int) -> str:
        return f"{self._run}/note/{rank}"
