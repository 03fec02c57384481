"""Finds ranks that wait in a collective which others have not entered, and says who is missing.

About once a second each rank notes, where the others can read it, how many collectives it has entered in each group. A
rank that has not moved for half of `stall_after_s` reads what the others noted: those that have entered fewer are
missing (`stall_rules`). Ranks that enter one after another are late, and not missing: JAX begins many computations
before the others have come to the first.

What a library's collectives are, and where notes are kept, says a `Watched`: torch's (`torch_stalls`), or JAX's.

Runs on: every rank, in a thread of its own from the first group on. Nothing here imports a framework.
"""

from __future__ import annotations

import atexit
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from jupyter_ddl.engine.collectives.stall_rules import Note, Stall, have_moved, stall_of
from jupyter_ddl.protocol.events import CollectiveStalled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jupyter_ddl.engine.collectives.library import Turn

    Groups = dict[str, tuple[int, tuple[int, ...]]]

_LOOK_S = 1.0
# When a rank that does not move looks first at the others, as a part of `stall_after_s`: two looks show whether they
# move. Sooner, each rank of a large world would read all notes within each of its steps.
_FIRST_SIGHT = 0.25
# How long it then waits until it reports, likewise: the first of those that wait, and another one.
_FIRST, _ANOTHER = 0.5, 0.65
# How long an end of connections waits for a look; one takes some milliseconds.
_LEAVE_S = 0.2


class Board(Protocol):
    """Where ranks note something for the others. Errors are RuntimeError, ValueError or OSError."""

    def set(self, key: str, text: str) -> None:
        """Note a text, in place of the one that was there."""

    def read(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the texts that are there."""


class Within(NamedTuple):
    """What a rank is in.

    Attributes:
        name: of the collective, as the program wrote it; None where that is not known.
        is_sure: it is in that collective for sure.
        may_wait: it may wait for other ranks.
    """

    name: str | None = None
    is_sure: bool = False
    may_wait: bool = True


class Watched(Protocol):
    """The collectives of one library on this rank. Errors are those of a board."""

    unknown: str
    """What a collective is called whose name is not known."""
    framework: str
    """Of the thread's name."""
    ends_together: bool
    """Whether ranks leave a collective together: one that has ended the cell is in none, then."""

    def groups(self) -> Groups:
        """Return each group that this rank is in, its number of collectives here, and its ranks."""

    def place(self) -> object:
        """Return where this rank is: equal for as long as it does not move."""

    def within(self) -> Within:
        """Return what it is in."""

    def following(self, group: str, count: int) -> str | None:
        """Return the name of a group's collective that comes after `count` of them; None where it is not known."""

    def board(self) -> Board | None:
        """Return a connection of its own to the ranks' notes; None while rank 0 does not serve them."""


class Stalls:
    """The stalls of one rank in one library's collectives.

    Args:
        rank: whose they are.
        world_size: the number of all ranks.
        watched: the library's collectives.
    """

    def __init__(self, rank: int, world_size: int, watched: Watched) -> None:
        self._rank = rank
        self._all = tuple(range(world_size))
        self._watched = watched
        self._turn: Turn | None = None
        # A cell that has ended, which is still to be noted.
        self._to_end: Turn | None = None
        self._board: Board | None = None
        self._thread: threading.Thread | None = None
        # Held while this rank's thread looks at the notes.
        self._looking = threading.Lock()
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
            name = f"jupyter_ddl {self._watched.framework} stalls"
            self._thread = threading.Thread(target=self._watch, name=name, daemon=True)
            self._thread.start()
            atexit.register(self._end)

    def leave_board(self) -> None:
        """Keep no connection to the notes: rank 0 may wait until every rank has left. The next look connects again."""
        self._board, self._noted = None, ""

    @contextmanager
    def away_from_board(self) -> Iterator[None]:
        """Keep no connection to the notes in the block, where it is ended: torch would print that it was.

        A look that waits for a frozen rank 0 does not hold it up.
        """
        has_left = self._looking.acquire(timeout=_LEAVE_S)
        try:
            yield
        finally:
            self.leave_board()
            if has_left:
                self._looking.release()

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
        self._told_s = 0.0
        self._begin_to_stand()

    def _begin_to_stand(self) -> None:
        self._suspected: Stall | None = None
        # What the others had noted when this rank looked last, while it stood; and since when they have not moved.
        self._others: Mapping[int, Note] | None = None
        self._others_moved_s = 0.0

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                with self._looking:
                    self._look_once()
            except (RuntimeError, ValueError, OSError, msgspec.MsgspecError):
                # The board is busy, or gone with rank 0 or by a release, a group ends meanwhile, or another user of the
                # machine has written there: the next look connects again.
                self.leave_board()

    def _look_once(self) -> None:
        turn = self._turn
        if turn is None:
            self._note_end()
        elif turn.stall_after_s is not None and turn.report is not None:
            self._look(turn.run, turn.stall_after_s, turn.report)

    def _look(self, run: str, after_s: float, report: Callable[[CollectiveStalled], None]) -> None:
        if run != self._run:
            self._forget()
            self._run = run
        groups = self._watched.groups()
        counts = {group: count for group, (count, _) in groups.items()}
        place = self._watched.place(), counts
        now_s = time.monotonic()
        if place != self._place:
            self._place, self._moved_s = place, now_s
            self._begin_to_stand()
        stood_s = now_s - self._moved_s
        within = self._watched.within() if stood_s >= after_s / 2 else Within(may_wait=False)
        note = Note(counts, within.may_wait, within.name, within.is_sure)
        board = self._board = self._board or self._watched.board()
        if board is None:
            stall = Stall(self._all[1:], {0: (note.within,)}) if note.stands and groups else None
        else:
            self._publish(board, note)
            is_first_sight = self._others is None and stood_s >= _FIRST_SIGHT * after_s
            stall = self._read(board, note, groups, now_s) if note.stands or is_first_sight else None
        waited_s = stood_s if stall is None or stall.group is None else now_s - self._others_moved_s
        if stall is None or stall != self._suspected:
            # Seen twice: what the others noted may be a second old.
            self._suspected = stall
        elif self._is_due(stall, waited_s, after_s) and now_s - self._told_s >= after_s / 4:
            self._told_s = now_s
            told: dict[str, Any] = {
                str(rank): [name or self._watched.unknown for name in missing]
                for rank, missing in stall.missing.items()
            }
            names = tuple(sorted({name for missing in told.values() for name in missing}))
            report(CollectiveStalled(run, self._rank, time.time(), round(waited_s, 1), names, told))

    def _is_due(self, stall: Stall, waited_s: float, after_s: float) -> bool:
        """Return whether this rank reports: the first of those that wait does, and where that does not, each."""
        return waited_s >= after_s * (_FIRST if self._rank == stall.waiting[0] else _ANOTHER)

    def _note_end(self) -> None:
        """Note that the cell has ended, also one that was over before the first look."""
        ended, self._to_end = self._to_end, None
        if ended is None or ended.stall_after_s is None:
            return
        self._forget()
        self._run = ended.run
        board = self._board = self._board or self._watched.board()
        if board is not None:
            counts = {group: count for group, (count, _) in self._watched.groups().items()}
            self._publish(board, Note(counts, has_ended=self._watched.ends_together))

    def _publish(self, board: Board, note: Note) -> None:
        text = msgspec.json.encode(note).decode()
        if text != self._noted:
            board.set(self._key(self._rank), text)
            self._noted = text

    def _read(self, board: Board, own: Note, groups: Groups, now_s: float) -> Stall | None:
        keys = {self._key(rank): rank for rank in self._all if rank != self._rank}
        notes = {keys[key]: msgspec.json.decode(text, type=Note) for key, text in board.read(list(keys)).items()}
        notes[self._rank] = own
        members = {group: ranks for group, (_, ranks) in groups.items()}
        stall = stall_of(self._rank, notes, members, self._watched.following)
        if self._others is None or (stall is not None and have_moved(stall, self._others, notes)):
            self._others_moved_s = now_s
        self._others = notes
        return stall

    def _key(self, rank: int) -> str:
        return f"{self._run}/note/{rank}"
