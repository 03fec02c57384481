"""Reads a rank's log of any size in pieces of about a megabyte: from any position, or from its end.

A log is bytes as the rank wrote them. Positions are offsets in them, or with `--stderr` in their stderr part.
"""

from __future__ import annotations

import codecs
import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.rank_files import LOG, STDERR_SPANS, rank_file_pattern
from jupyter_ddl.runs.reading import rank_files

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

BLOCK_BYTES = 1 << 20
LONG_LINE_BYTES = 1 << 20
"""A longer line is returned in part: its beginning, or what overwrites it at its end, and how much more it has."""

_BEGINNING_CHARACTERS = 1 << 16
_END_BYTES = 1 << 14
_SPAN_BYTES = 1 << 10
_LOG = rank_file_pattern(LOG)
_SPAN = re.compile(rb"\[([0-9]{1,18}), *([0-9]{1,18})\]\s*")


@dataclass(frozen=True)
class Piece:
    """Text of a log.

    Attributes:
        text: whole lines and, at the log's end, an unfinished one; invalid UTF-8 replaced.
        more_characters: how many more the last line has. Then `text` is this line alone, without its newline.
    """

    text: str
    more_characters: int = 0


def log_files(folder: Path) -> dict[int, Path]:
    """Return rank -> its log, of the ranks that have one."""
    return rank_files(folder, _LOG)


def spans_of(log: Path) -> Path:
    """Return the file that says which stretches of a log are stderr."""
    return log.with_suffix(f".{STDERR_SPANS}")


class RankLog:
    """One rank's log; a context manager. It is open from the first reading on until `close`, and then again.

    Args:
        path: `rank-K.log`.
        only_stderr: read what the rank wrote to its standard error, and nothing else.
    """

    def __init__(self, path: Path, *, only_stderr: bool = False) -> None:
        self._path = path
        self._open: BinaryIO | None = None
        self._spans = _Spans(spans_of(path)) if only_stderr else None

    def __enter__(self) -> RankLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, until it is read again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def size(self) -> int:
        """Return how many bytes there are by now."""
        size = self._file.seek(0, 2)
        return size if self._spans is None else self._spans.refresh(size)

    def position_of(self, offset: int) -> int:
        """Return the position of an offset in the log's bytes; call `size` before."""
        return offset if self._spans is None else self._spans.before(offset)

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[Piece]:
        """Yield the text between two positions; `start` must be a line's beginning.

        Args:
            start: the first position.
            end: the position after the last; by default the end by now.
        """
        end = self.size() if end is None else end
        at, held = start, b""
        while at < end:
            block = held + self.read(at, min(BLOCK_BYTES, end - at))
            if len(block) == len(held):
                return  # Another process has truncated the file.
            at += len(block) - len(held)
            cut = block.rfind(b"\n") + 1
            if cut:
                yield Piece(_text(block[:cut]))
            held = block[cut:]
            if len(held) > LONG_LINE_BYTES:
                at = yield from self._long_line(held, at, end)
                held = b""
        if held:
            yield Piece(_text(held))

    def lines_before(self, position: int, count: int) -> int:
        """Return where the last `count` lines before a position begin; 0 where there are fewer.

        Args:
            position: a line's beginning, or the end.
            count: how many lines; an unfinished one is one.
        """
        if count <= 0:
            return position
        # The newline that ends the last line is not one between lines.
        wanted = count + (position > 0 and self.read(position - 1, 1) == b"\n")
        for begin, block in self._blocks_before(position):
            here = block.count(b"\n")
            if here >= wanted:
                place = len(block)
                for _ in range(wanted):
                    place = block.rfind(b"\n", 0, place)
                return begin + place + 1
            wanted -= here
        return 0

    def count_lines(self, start: int, end: int) -> int:
        """Return how many lines end between two positions."""
        count, at = 0, self._data_from(start, end)
        while at < end:
            count += self.read(at, min(BLOCK_BYTES, end - at)).count(b"\n")
            at = self._data_from(at + BLOCK_BYTES, end)
        return count

    def whole_lines_end(self, start: int) -> int:
        """Return the end of the last whole line after a position; the position where none has ended yet."""
        for begin, block in self._blocks_before(self.size(), start):
            place = block.rfind(b"\n")
            if place >= 0:
                return begin + place + 1
        return start

    def _blocks_before(self, position: int, floor: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the position and bytes of each block before a position, the last first; b"" for a hole."""
        at = position
        while at > floor:
            begin = max(floor, at - BLOCK_BYTES)
            if self._data_from(begin, at) < at:
                yield begin, self.read(begin, at - begin)
            else:
                begin = self._hole_begin(floor, begin, at)
                yield begin, b""
            at = begin

    def _hole_begin(self, floor: int, known: int, end: int) -> int:
        """Return where the hole of a sparse file that ends at `end` begins, or a position less than a block later."""
        low, high = floor, known
        while high - low > BLOCK_BYTES:
            middle = (low + high) // 2
            low, high = (middle, high) if self._data_from(middle, end) < end else (low, middle)
        return low if self._data_from(low, end) >= end else high

    def _data_from(self, position: int, end: int) -> int:
        """Return the first position from `position` on that is in no hole of a sparse file; else `end`."""
        if self._spans is not None or position >= end:
            return min(position, end)
        return min(end, untrusted_files.next_data(self._file, position))

    def _long_line(self, head: bytes, at: int, end: int) -> Generator[Piece, None, int]:
        """Yield the shown part of a line that continues from `at`; return where it ends."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        beginning = decoder.decode(head)
        more, last, newline = 0, head[-_END_BYTES:], -1
        while at < end and newline < 0:
            data_at = self._data_from(at, end)
            if data_at > at:
                # A terabyte of nothing is counted, and not read.
                more, at = more + data_at - at, data_at
                continue
            block = self.read(at, min(BLOCK_BYTES, end - at))
            if not block:
                break
            newline = block.find(b"\n")
            block = block if newline < 0 else block[:newline]
            more += len(decoder.decode(block))
            last = (last + block)[-_END_BYTES:]
            at += len(block) + (newline >= 0)
        _, rewritten, rest = last.rstrip(b"\r").rpartition(b"\r")
        # After a carriage return, the text that follows overwrites the line.
        if rewritten:
            yield Piece(_text(rest) + "\n")
        else:
            yield Piece(beginning[:_BEGINNING_CHARACTERS], len(beginning[_BEGINNING_CHARACTERS:]) + more)
        return at

    @property
    def _file(self) -> BinaryIO:
        if self._open is None:
            self._open = untrusted_files.open_file(self._path)
        return self._open

    def read(self, position: int, count: int) -> bytes:
        """Return up to `count` bytes from a position on; call `size` before."""
        if self._spans is None:
            self._file.seek(position)
            return self._file.read(count)
        parts = []
        for offset, length in self._spans.within(position, count):
            self._file.seek(offset)
            parts.append(self._file.read(length))
        return b"".join(parts)


class _Spans:
    """The stretches of a log that are stderr, in order. Memory: 16 bytes a stretch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._offsets = array("Q")
        self._ends = array("Q")  # in what the stretches make together

    def refresh(self, log_bytes: int) -> int:
        """Read what has been added to the file; return how many bytes of a log of that size are stderr."""
        try:
            with untrusted_files.open_file(self._path) as file:
                file.seek(self._read_bytes)
                for line in untrusted_files.lines(file, _SPAN_BYTES):
                    if not line.endswith(b"\n"):
                        break  # Half written: its rest may still come.
                    self._read_bytes += len(line)
                    self._add(line)
        except OSError:
            # There is none, or something else in its place.
            return 0
        # A full disk may have taken the stretch but not its bytes.
        return self.before(log_bytes)

    def within(self, position: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield offset and length in the log of what is between two positions."""
        index = bisect_right(self._ends, position)
        while count > 0 and index < len(self._ends):
            before = self._ends[index - 1] if index else 0
            length = min(count, self._ends[index] - position)
            yield self._offsets[index] + position - before, length
            position += length
            count -= length
            index += 1

    def before(self, offset: int) -> int:
        """Return how many bytes before an offset in the log are stderr."""
        last = bisect_right(self._offsets, offset) - 1
        if last < 0:
            return 0
        before = self._ends[last - 1] if last else 0
        return min(self._ends[last], before + offset - self._offsets[last])

    def _add(self, line: bytes) -> None:
        log_end = self._offsets[-1] + self._length_of_last() if self._ends else 0
        match = _SPAN.fullmatch(line)
        offset, length = (int(match[1]), int(match[2])) if match else (0, 0)
        if not length or offset < log_end:
            return
        if self._ends and offset == log_end:
            self._ends[-1] += length
            return
        self._ends.append((self._ends[-1] if self._ends else 0) + length)
        self._offsets.append(offset)

    def _length_of_last(self) -> int:
        return self._ends[-1] - (self._ends[-2] if len(self._ends) > 1 else 0)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
