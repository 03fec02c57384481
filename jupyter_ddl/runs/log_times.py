"""Says when each part of a rank's log was written: by its marks; of older runs by the events, or spread over the run.

All times are microseconds since the epoch, by the clock of the kernel's host as far as the record has the others'.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.events import OutputChunk
from jupyter_ddl.protocol.log_marks import MARK_BYTES, Mark, mark_of
from jupyter_ddl.protocol.rank_files import TIMES
from jupyter_ddl.runs.reading import read_events

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.runs.logs import RankLog
    from jupyter_ddl.runs.store import RunRecord

BLOCK_BYTES = 1 << 18
# Of a run without marks: larger events are not read to merge its logs.
MAX_EVENTS_BYTES = 32 << 20
_RECORDS_AT_ONCE = 77
_EVEN_BYTES = 1 << 12
_OFFSET = attrgetter("offset")


class Marks(Protocol):
    """The marks of one rank, in order."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, index: int) -> Mark:
        """Return one of them."""


class FileMarks:
    """The marks of one rank, read as they are asked for: a file of any size takes no memory.

    Args:
        path: `rank-K.times`.
        late_us: how far the clock of the rank's host was ahead.
        keeps_open: whether the file stays open between two reads, until `close`.
    """

    def __init__(self, path: Path, late_us: int = 0, *, keeps_open: bool = True) -> None:
        self._path = path
        self._late_us = late_us
        self._keeps_open = keeps_open
        self._open = untrusted_files.open_file(path)
        self._count = self._open.seek(0, 2) // MARK_BYTES
        self._blocks: dict[int, bytes] = {}
        self._release()

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Mark:
        if not 0 <= index < self._count:
            raise IndexError(index)
        block, within = divmod(index, _RECORDS_AT_ONCE)
        record = self._block(block)[within * MARK_BYTES : (within + 1) * MARK_BYTES]
        # What a cell has left in the file's place sorts first.
        mark = mark_of(record) or Mark(0, None, 0)
        return mark._replace(at_us=mark.at_us - self._late_us)

    def _block(self, number: int) -> bytes:
        found = self._blocks.get(number)
        if found is None:
            if self._open.closed:
                self._open = untrusted_files.open_file(self._path)
            self._open.seek(number * _RECORDS_AT_ONCE * MARK_BYTES)
            found = self._open.read(_RECORDS_AT_ONCE * MARK_BYTES)
            self._release()
            # A walk needs the last; a bisection comes back to the first ones that it looked at.
            if len(self._blocks) >= 16:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[number] = found
        return found

    def _release(self) -> None:
        if not self._keeps_open:
            self._open.close()


class EvenMarks:
    """Marks at even distances in a log, as if it had been written at an even rate.

    Args:
        size: the log's length.
        begin_us: when its writing began.
        end_us: when it ended.
        step: the distance.
    """

    def __init__(self, size: int, begin_us: int = 0, end_us: int = 0, step: int = BLOCK_BYTES) -> None:
        self._size = size
        self._step = step
        self._begin_us, self._end_us = begin_us, end_us

    def __len__(self) -> int:
        return -(-self._size // self._step)

    def __getitem__(self, index: int) -> Mark:
        if not 0 <= index < len(self):
            raise IndexError(index)
        offset = index * self._step
        return Mark(offset, None, self._begin_us + (self._end_us - self._begin_us) * offset // self._size)


class StderrMarks:
    """A rank's marks, with offsets in what of its log is stderr."""

    def __init__(self, marks: Marks, log: RankLog) -> None:
        self._marks = marks
        self._log = log

    def __len__(self) -> int:
        return len(self._marks)

    def __getitem__(self, index: int) -> Mark:
        mark = self._marks[index]
        return Mark(self._log.position_of(mark.offset), None, mark.at_us)


def last_at_or_before(marks: Marks, offset: int) -> int:
    """Return the index of the last mark at or before a position; -1 where there is none."""
    return bisect_right(marks, offset, key=_OFFSET) - 1


def marks_file(log: Path) -> Path:
    """Return the file that says when a log was written."""
    return log.with_suffix(f".{TIMES}")


def clocks_ahead_us(folder: Path) -> dict[int, int]:
    """Return rank -> how far the clock of its host was ahead of the kernel's; only of ranks of which that is known."""
    try:
        record = untrusted_files.read_object(folder / "run.json")
    except (OSError, ValueError):
        return {}
    hosts, offsets_s = record.get("hosts"), record.get("clock_offsets_s")
    if not isinstance(hosts, dict) or not isinstance(offsets_s, dict):
        return {}
    ahead: dict[int, int] = {}
    for rank, host in hosts.items():
        offset_s: Any = offsets_s.get(host) if isinstance(host, str) else None
        if rank.isdecimal() and isinstance(offset_s, int | float):
            ahead[int(rank)] = int(offset_s * 1_000_000)
    return ahead


def marks_of_events(folder: Path) -> dict[int, list[Mark]]:
    """Return rank -> marks from the events of a run that has no others; empty where these are too many."""
    path = folder / "events.jsonl"
    try:
        if path.stat(follow_symlinks=False).st_size > MAX_EVENTS_BYTES:
            return {}
    except OSError:
        return {}
    found: dict[int, list[Mark]] = {}
    ends: dict[int, int] = {}
    for event in read_events(path):
        if isinstance(event, OutputChunk) and event.end_bytes > ends.get(event.rank, 0):
            # It says how long the log was when it was sent.
            begin = ends.get(event.rank, 0)
            found.setdefault(event.rank, []).append(Mark(begin, None, int(event.at_s * 1_000_000)))
            ends[event.rank] = event.end_bytes
    return found


def evenly(record: RunRecord, path: Path, size: int) -> EvenMarks:
    """Return marks that spread a log over the time of its run."""
    begin_us = int(record.start_s * 1_000_000)
    end_s = path.stat().st_mtime if record.seconds is None else record.start_s + record.seconds
    return EvenMarks(size, begin_us, max(begin_us, int(end_s * 1_000_000)), _EVEN_BYTES)
