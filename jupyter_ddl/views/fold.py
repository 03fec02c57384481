"""Folds output: lines that are equal on several ranks are shown once, and different ones by rank.

`Fold` holds one list of entries, each a text and the ranks that wrote it. A rank's line joins the first entry after the
last one that the rank is in, if that has the same text; otherwise it becomes a new entry at the end. Nothing waits for
slower ranks, and the entries that contain a rank are exactly that rank's lines, in order. The order is that of each
stream: a rank's stderr comes through its own pipe, and lines of the two that are written at once arrive in any order,
a different one on each rank.
"""

from __future__ import annotations

import sys
from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.protocol.rank_sets import compact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_ddl.protocol.events import RichOutput

Kind = Literal["stdout", "stderr", "report", "text", "rich"]
"""A line of a stream, or of a report of the session's; a display or result that is only text (several lines), or one
that is more than text."""

# These have an order of their own: a rank's stderr comes through its own pipe.
_ERRORS = ("stderr", "report")

WINDOW = 4_096
"""Entries that a rank can still join. A lookup costs the same in a window of any size; the window bounds the memory."""


@dataclass(eq=False, slots=True)
class Entry:
    """What one or more ranks wrote.

    Attributes:
        index: its place among all entries.
        text: a line; several for "text"; for "rich" what identifies this bundle, not for display.
        members: the ranks that wrote it, as a bit mask (rank 2 is 1 << 2); 0 once all of them have withdrawn it.
        bundle: what to display for "rich", until it has been displayed.
    """

    index: int
    kind: Kind
    text: str
    members: int
    bundle: RichOutput | None = field(default=None, repr=False)


def ranks_in(members: int) -> list[int]:
    """Return the ranks of a bit mask."""
    return [rank for rank, bit in enumerate(reversed(f"{members:b}")) if bit == "1"]


class Headings:
    """The ranks of an entry as the head of its lines: `[0-3] `, padded so that the text stays aligned."""

    _LIMIT = 10_000

    def __init__(self, ranks: Sequence[int]) -> None:
        self._width = len(compact(ranks)) + 2
        self._known: dict[int, str] = {}

    def of(self, members: int) -> str:
        """Return the heading of a bit mask of ranks."""
        heading = self._known.get(members)
        if heading is None:
            if len(self._known) >= self._LIMIT:
                self._known.clear()
            heading = self._known[members] = f"[{compact(ranks_in(members))}]".ljust(self._width) + " "
        return heading

    def lines(self, members: int, text: str) -> list[str]:
        """Return the text's lines, each with its heading: every line names its ranks."""
        heading = self.of(members)
        return [(heading + line).rstrip(" ") for line in text.split("\n")]


class Fold:
    """The entries that ranks can still join, found by their text."""

    def __init__(self, window: int = WINDOW) -> None:
        self._ring: list[Entry | None] = [None] * window
        self._count = 0
        self._places: dict[Kind, dict[str, list[int]]] = {}
        self._cursors: dict[tuple[int, bool], int] = {}
        self._indexes: dict[int, deque[int]] = {}
        # (cursor, rank) of the ranks that `lowest_cursor` is asked for. A cursor may be too low here, never too high.
        self._lowest: list[tuple[int, int]] | None = None

    def lowest_cursor(self, ranks: int) -> int:
        """Return the lowest index of all last entries that some ranks are in; -1 before one of them is in any.

        It takes the same time for a thousand ranks as for two.

        Args:
            ranks: as a bit mask, and later ones in turn fewer and fewer; `sys.maxsize` for none.
        """
        if self._lowest is None:
            self._lowest = [(-1, rank) for rank in ranks_in(ranks)]
        heap = self._lowest
        while heap:
            cursor, rank = heap[0]
            current = self._last(rank)
            if not ranks >> rank & 1:
                heappop(heap)
            elif current != cursor:
                heapreplace(heap, (current, rank))
            else:
                return cursor
        return sys.maxsize

    def _last(self, rank: int) -> int:
        return max(self._cursors.get((rank, False), -1), self._cursors.get((rank, True), -1))

    def _cursor(self, rank: int, kind: Kind) -> int:
        return self._cursors.get((rank, kind in _ERRORS), -1)

    def can_join(self, rank: int, kind: Kind, text: str) -> bool:
        """Whether `add` would find an entry for the text and not make one."""
        indices = self._places.get(kind, {}).get(text)
        return indices is not None and indices[-1] > self._cursor(rank, kind)

    def add(self, rank: int, kind: Kind, texts: Iterable[str]) -> list[Entry]:
        """Add what a rank wrote, in order, and return the new entries."""
        ring, window = self._ring, len(self._ring)
        places = self._places.setdefault(kind, {})
        cursor, bit = self._cursor(rank, kind), 1 << rank
        indexes: list[int] = []
        added: list[Entry] = []
        for text in texts:
            indices = places.get(text)
            if indices is not None and indices[-1] > cursor:
                cursor = indices[bisect_right(indices, cursor)]
                entry = ring[cursor % window]
                assert entry is not None
                entry.members |= bit
            else:
                cursor = self._count
                self._count += 1
                self._expire(cursor - window)
                # Looked up again: this text's list may have just expired.
                places.setdefault(text, []).append(cursor)
                entry = ring[cursor % window] = Entry(cursor, kind, text, bit)
                added.append(entry)
            indexes.append(cursor)
        self._cursors[rank, kind in _ERRORS] = cursor
        self._history(rank).extend(indexes)
        return added

    def withdraw(self, rank: int) -> list[Entry]:
        """Withdraw all that a rank wrote in the window, and return the entries that have no ranks left."""
        emptied = []
        indexes = self._history(rank)
        for index in indexes:
            entry = self._ring[index % len(self._ring)]
            if entry is None or entry.index != index:
                continue
            entry.members &= ~(1 << rank)
            if not entry.members:
                self.close(entry)
                emptied.append(entry)
        indexes.clear()
        for is_error in (False, True):
            self._cursors.pop((rank, is_error), None)
        if self._lowest is not None:
            heappush(self._lowest, (-1, rank))
        return emptied

    def revive(self, entry: Entry, rank: int, text: str) -> bool:
        """Reuse an entry without ranks for another text, where the rank's order allows it."""
        in_window = self._ring[entry.index % len(self._ring)] is entry
        if entry.members or not in_window or entry.index <= self._cursor(rank, entry.kind):
            return False
        entry.text, entry.members = text, 1 << rank
        insort(self._places.setdefault(entry.kind, {}).setdefault(text, []), entry.index)
        self._cursors[rank, entry.kind in _ERRORS] = entry.index
        self._history(rank).append(entry.index)
        return True

    def close(self, entry: Entry) -> None:
        """Let no further rank join an entry."""
        places = self._places[entry.kind]
        indices = places.get(entry.text, [])
        if entry.index in indices:
            indices.remove(entry.index)
            if not indices:
                del places[entry.text]

    def _expire(self, index: int) -> None:
        if index >= 0:
            entry = self._ring[index % len(self._ring)]
            if entry is not None:
                self.close(entry)

    def _history(self, rank: int) -> deque[int]:
        history = self._indexes.get(rank)
        if history is None:
            history = self._indexes[rank] = deque(maxlen=len(self._ring))
        return history
