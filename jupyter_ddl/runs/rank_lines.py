"""Reads the lines of one rank's log from any place, forwards or backwards, each with its time and its number.

A line has the time of the mark in whose part of the log it ends, so that one is read when it is whole. A line of more
than BLOCK_BYTES is read in pieces.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from jupyter_ddl.runs.log_times import BLOCK_BYTES, last_at_or_before

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.runs.log_times import Marks
    from jupyter_ddl.runs.logs import RankLog

    MaySkip = Callable[[bytes], bool]

# How far before a position its line's beginning is searched.
_BACK_BYTES = 1 << 20
_FIRST_BACK_BYTES = 1 << 12
# What an unfinished line is shown of: its end.
_UNFINISHED_BYTES = 1 << 16
_EMPTY_IN_TURN = 64
_NEAR_MARKS = 8
_TIME = attrgetter("at_us")


class Cursor(NamedTuple):
    """A place between two lines of all ranks together: before the line that begins there, in its rank, at its time."""

    at_us: int
    rank: int
    position: int


class Line(NamedTuple):
    """A line of a log.

    Attributes:
        at_us: when it ended; microseconds since the epoch, 0 where times do not matter.
        rank: which rank wrote it.
        begin: its first position.
        end: the position after its newline.
        number: counted from 1; None where counting would take too long.
        data: without the newline; None for several lines that were skipped.
    """

    at_us: int
    rank: int
    begin: int
    end: int
    number: int | None
    data: bytes | None


class RankLines:
    """The lines of one rank's log.

    Args:
        rank: the rank.
        log: its log; open until its owner closes it.
        marks: its marks, made after the log's size was read.
        size: the log's size.
        counted: the marks that say how many lines there were; None where none do.
        grows: more may be written: an unfinished line is none yet.
        until_us: what was written from then on is left out; None where nothing is.
        ahead_bytes: how much is read at once.
        counted_bytes: how far lines are counted, where no mark is near.
        keeps_open: whether the log stays open between two reads.
    """

    def __init__(
        self,
        rank: int,
        log: RankLog,
        marks: Marks,
        size: int,
        *,
        counted: Marks | None,
        grows: bool,
        until_us: int | None,
        ahead_bytes: int,
        counted_bytes: int,
        keeps_open: bool,
    ) -> None:
        self.rank = rank
        self.marks = marks
        self._log = log
        self._size = size
        self._counted = counted
        self._ahead_bytes = ahead_bytes
        self._counted_bytes = counted_bytes
        self._keeps_open = keeps_open
        self._held_at, self._held = 0, b""
        self.end = self.line_begin(size) if grows else size
        if until_us is not None:
            late = bisect_left(marks, until_us, key=_TIME)
            if late < len(marks):
                self.end = min(self.end, self.line_begin(min(size, marks[late].offset)))

    def forward(self, cursor: Cursor, may_skip: MaySkip | None = None) -> Iterator[Line]:
        """Yield the lines from a place on.

        Args:
            cursor: the place.
            may_skip: says of a block of lines that none of them is wanted: these are yielded as one, without data.
        """
        begin, index = self._first(cursor)
        if begin >= self.end:
            return
        count = self._lines_before(begin)
        empty = seen = 0
        while begin < self.end and index < max(1, len(self.marks)):
            if may_skip is not None and begin >= seen:
                ahead = self._read(begin, min(self._ahead_bytes, self.end - begin))
                ahead = ahead[: ahead.rfind(b"\n") + 1]
                seen = begin + len(ahead)
                if ahead and may_skip(ahead):
                    count = None if count is None else count + ahead.count(b"\n")
                    index = max(0, last_at_or_before(self.marks, seen))
                    yield Line(self._part(index)[0], self.rank, begin, seen, None, None)
                    begin = seen
                    continue
            at_us, stop = self._part(index)
            before = begin
            while begin < stop:
                block = self._read(begin, min(stop - begin, BLOCK_BYTES))
                if not block:
                    return  # Another process has truncated the file.
                cut = block.rfind(b"\n") + 1
                if not cut and len(block) < BLOCK_BYTES and stop < self.end:
                    break  # It ends in a later part.
                for data in _lines(block[: cut or None]):
                    number = None if count is None else count + 1
                    ended = data.endswith(b"\n")
                    yield Line(at_us, self.rank, begin, begin + len(data), number, data[:-1] if ended else data)
                    begin += len(data)
                    count = None if count is None else count + ended
            index += 1
            empty = empty + 1 if begin == before else 0
            if empty >= _EMPTY_IN_TURN:
                index, empty = max(index, last_at_or_before(self.marks, begin)), 0

    def backward(self, cursor: Cursor, may_skip: MaySkip | None = None) -> Iterator[Line]:
        """Yield the lines before a place, the last first; see `forward`."""
        end, index = self._last(cursor)
        if end <= 0 or index < 0:
            return
        count = self._lines_before(end)
        empty, seen = 0, end
        while end > 0 and index >= 0:
            if may_skip is not None and end <= seen:
                begin = max(0, end - self._ahead_bytes)
                back = self._read(begin, end - begin, backwards=True)
                seen = begin if begin == 0 else end - len(back) + back.find(b"\n") + 1
                back = back[len(back) - (end - seen) :] if seen < end else b""
                if back and may_skip(back):
                    count = None if count is None else count - back.count(b"\n")
                    index = max(0, last_at_or_before(self.marks, seen - 1))
                    yield Line(self._part(index)[0], self.rank, seen, end, None, None)
                    end = seen
                    continue
            at_us, _ = self._part(index)
            floor = 0 if index == 0 else min(end, self._begin_of(index))
            before = end
            while end > floor:
                begin = max(floor, end - BLOCK_BYTES)
                block = self._read(begin, end - begin, backwards=True)
                if len(block) < end - begin:
                    return  # Another process has truncated the file.
                if begin > floor:
                    # Of a line that begins before it, this block is a piece.
                    block = block[block.find(b"\n", 0, len(block) - 1) + 1 :]
                for data in reversed(_lines(block)):
                    ended = data.endswith(b"\n")
                    count = None if count is None else count - ended
                    number = None if count is None else count + 1
                    yield Line(at_us, self.rank, end - len(data), end, number, data[:-1] if ended else data)
                    end -= len(data)
            index -= 1
            empty = empty + 1 if end == before else 0
            if empty >= _EMPTY_IN_TURN:
                index, empty = min(index, last_at_or_before(self.marks, end - 1)), 0

    def unfinished(self) -> bytes:
        """Return the end of the line that has not ended yet; empty where there is none."""
        begin = self.line_begin(self._size)
        return self._read(max(begin, self._size - _UNFINISHED_BYTES), min(_UNFINISHED_BYTES, self._size - begin))

    def line_begin(self, position: int) -> int:
        """Return where the line of a position begins; the position itself where that is too far before it."""
        at, step = position, _FIRST_BACK_BYTES
        floor = max(0, position - _BACK_BYTES)
        while at > floor:
            begin = max(floor, at - step)
            place = self._read(begin, at - begin, backwards=True).rfind(b"\n")
            if place >= 0:
                return begin + place + 1
            at, step = begin, step * 4
        return position if floor else 0

    def _part(self, index: int) -> tuple[int, int]:
        """Return the time of a mark, and the position to which its part of the log reaches."""
        if not len(self.marks):
            return 0, self.end
        is_last = index + 1 >= len(self.marks)
        return self.marks[index].at_us, self.end if is_last else min(self.end, self.marks[index + 1].offset)

    def _begin_of(self, index: int) -> int:
        """Return where the first line that ends in a part begins; the end for the part after the last."""
        if index == 0:
            return 0
        offset = self.marks[index].offset if index < len(self.marks) else self.end
        # A line that was cut off at the end has ended in the part that has its last byte.
        return self.end if offset >= self.end else self.line_begin(offset)

    def _first(self, cursor: Cursor) -> tuple[int, int]:
        """Return where the first line after a place begins, and the index of its part."""
        if cursor.rank == self.rank:
            return cursor.position, max(0, last_at_or_before(self.marks, cursor.position))
        index = self._index(cursor)
        return self._begin_of(index), index

    def _last(self, cursor: Cursor) -> tuple[int, int]:
        """Return where the last line before a place ends, and the index of its part."""
        if cursor.rank == self.rank:
            end = min(cursor.position, self.end)
            return end, max(0, last_at_or_before(self.marks, end - 1))
        index = self._index(cursor)
        end = self._begin_of(index) if len(self.marks) else self.end
        return end, min(max(0, index - 1), max(0, last_at_or_before(self.marks, end - 1)))

    def _index(self, cursor: Cursor) -> int:
        """Return the index of the first part after a place in another rank's log."""
        find = bisect_left if self.rank > cursor.rank else bisect_right
        return find(self.marks, cursor.at_us, key=_TIME)

    def _lines_before(self, position: int) -> int | None:
        """Return how many lines end before a position; None where no mark is near enough to count them."""
        counted = self._counted
        offset = lines = 0
        if counted is not None:
            index = last_at_or_before(counted, position)
            for near in range(index, max(-1, index - _NEAR_MARKS), -1):
                mark = counted[near]
                if mark.lines is not None:
                    offset, lines = mark.offset, mark.lines
                    break
        if position - offset > self._counted_bytes:
            return None
        return lines + self._log.count_lines(offset, position)

    def _read(self, begin: int, count: int, *, backwards: bool = False) -> bytes:
        """Return bytes from a position on; what is read next is likely to be held already."""
        if not self._held_at <= begin <= begin + count <= self._held_at + len(self._held):
            more = max(count, self._ahead_bytes)
            self._held_at = max(0, begin + count - more) if backwards else begin
            self._held = self._log.read(self._held_at, begin + count - self._held_at if backwards else more)
            if not self._keeps_open:
                self._log.close()
        return self._held[begin - self._held_at : begin - self._held_at + count]


def _lines(block: bytes) -> list[bytes]:
    """Return the lines of a block, each with its newline; a carriage return ends none."""
    lines = [line + b"\n" for line in block.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
