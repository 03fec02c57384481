"""Merges the logs of a run's ranks by time, from any place, forwards or backwards, without reading the rest of them."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from jupyter_ddl.runs import log_times
from jupyter_ddl.runs.log_times import BLOCK_BYTES, EvenMarks, FileMarks, StderrMarks, marks_file
from jupyter_ddl.runs.logs import RankLog, log_files
from jupyter_ddl.runs.rank_lines import Cursor, RankLines
from jupyter_ddl.runs.store import RUNNING, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.protocol.log_marks import Mark
    from jupyter_ddl.runs.log_times import Marks
    from jupyter_ddl.runs.rank_lines import Line, MaySkip
    from jupyter_ddl.runs.store import RunRecord

MAX_RANKS = 10_000
# Of an active run the last second is not merged yet: another rank's lines of that time may not have been written.
LATE_US = 1_000_000
START = Cursor(-(1 << 60), -1, 0)
END = Cursor(1 << 60, MAX_RANKS * MAX_RANKS, 0)

_AHEAD_BYTES = 4 << 20  # of all ranks together
_LEAST_AHEAD_BYTES = 1 << 13
_COUNTED_BYTES = 64 << 20  # of all ranks together
_FILES = 100  # ranks whose files stay open
_UNFINISHED = 16
_CURSOR = re.compile(r"(-?[0-9]{1,19})\.(-?[0-9]{1,9})\.([0-9]{1,18})")
_PLACE = attrgetter("at_us", "rank")

MARKED = "marked"
OF_EVENTS = "events"
EVENLY = "evenly"
"""How the times of lines are known: by marks; by the events of an older run; not at all, but spread over the run."""


@dataclass(frozen=True)
class MergedLines:
    """The lines of some ranks of a run, in the order of their times.

    Attributes:
        ranks: each rank's.
        timed: how the times are known; None of one rank, whose lines need none.
        size: how many bytes there are.
    """

    ranks: tuple[RankLines, ...]
    timed: str | None
    size: int

    def forward(self, cursor: Cursor, may_skip: MaySkip | None = None) -> Iterator[Line]:
        """Yield the lines from a place on, as `RankLines.forward` does."""
        return merge(*(rank.forward(cursor, may_skip) for rank in self.ranks), key=_PLACE)

    def backward(self, cursor: Cursor, may_skip: MaySkip | None = None) -> Iterator[Line]:
        """Yield the lines before a place, the last first."""
        return merge(*(rank.backward(cursor, may_skip) for rank in self.ranks), key=_PLACE, reverse=True)

    def unfinished(self) -> list[tuple[int, bytes]]:
        """Return ranks with the lines that have not ended yet, of a few ranks."""
        found = ((rank.rank, rank.unfinished()) for rank in self.ranks)
        return list(islice((one for one in found if one[1]), _UNFINISHED))

    def at(self, share: float) -> Cursor:
        """Return the place at a share of the time; of one rank, of its log."""
        if self.timed is None:
            rank = self.ranks[0]
            return Cursor(0, rank.rank, rank.line_begin(int(share * rank.end)))
        begin_us, end_us = self._times()
        return Cursor(begin_us + int(share * (end_us - begin_us)), -1, 0)

    def share(self, cursor: Cursor) -> float:
        """Return the share at which a place is."""
        if self.timed is None:
            whole, at = self.ranks[0].end, cursor.position
        else:
            begin_us, end_us = self._times()
            whole, at = end_us - begin_us, cursor.at_us - begin_us
        return min(1.0, max(0.0, at / whole)) if whole else 1.0

    def _times(self) -> tuple[int, int]:
        marked = [rank.marks for rank in self.ranks if len(rank.marks)]
        if not marked:
            return 0, 0
        return min(marks[0].at_us for marks in marked), max(marks[len(marks) - 1].at_us for marks in marked)


def cursor_of(text: str) -> Cursor | None:
    """Return the place that a text names; None where it names none."""
    found = _CURSOR.fullmatch(text)
    return Cursor(*map(int, found.groups())) if found else None


def cursor_text(cursor: Cursor) -> str:
    """Return a place as text."""
    return f"{cursor.at_us}.{cursor.rank}.{cursor.position}"


@contextmanager
def merged_lines(record: RunRecord, rank: int | None, *, only_stderr: bool = False) -> Iterator[MergedLines | None]:
    """Open the log of a rank, or those of all ranks merged; None where there is none.

    Args:
        record: the run's.
        rank: the rank; None for all.
        only_stderr: read what was written to standard error, and nothing else.
    """
    files = log_files(record.path)
    chosen = dict(islice(files.items(), MAX_RANKS)) if rank is None else {rank: files[rank]} if rank in files else {}
    if not chosen:
        yield None
        return
    with ExitStack() as stack:
        opener = _Opener(record, len(chosen), stack, is_merged=rank is None, only_stderr=only_stderr)
        ranks = tuple(opener.open(one, path) for one, path in chosen.items())
        yield MergedLines(ranks, opener.timed, opener.size)


class _Opener:
    def __init__(self, record: RunRecord, count: int, stack: ExitStack, *, is_merged: bool, only_stderr: bool) -> None:
        self.timed = MARKED if is_merged else None
        self.size = 0
        self._record = record
        self._count = count
        self._stack = stack
        self._only_stderr = only_stderr
        self._grows = record.state in (RUNNING, UNKNOWN)
        self._until_us = int(time.time() * 1_000_000) - LATE_US if is_merged and self._grows else None
        self._ahead_us = log_times.clocks_ahead_us(record.path)
        self._of_events: dict[int, list[Mark]] | None = None

    def open(self, rank: int, path: Path) -> RankLines:
        keeps_open = self._count <= _FILES
        log = self._stack.enter_context(RankLog(path, only_stderr=self._only_stderr))
        # Before the marks: each byte that is counted has its mark.
        size = log.size()
        self.size += size
        counted = self._file_marks(rank, path, keeps_open=keeps_open)
        lines = RankLines(
            rank,
            log,
            self._marks(rank, path, log, size, counted),
            size,
            counted=None if self._only_stderr else counted,
            grows=self._grows,
            until_us=self._until_us,
            ahead_bytes=min(BLOCK_BYTES, max(_LEAST_AHEAD_BYTES, _AHEAD_BYTES // self._count)),
            counted_bytes=_COUNTED_BYTES // self._count,
            keeps_open=keeps_open,
        )
        if not keeps_open:
            log.close()
        return lines

    def _file_marks(self, rank: int, path: Path, *, keeps_open: bool) -> FileMarks | None:
        try:
            found = FileMarks(marks_file(path), self._ahead_us.get(rank, 0), keeps_open=keeps_open)
        except OSError:
            # An older run's, or something else is in its place.
            return None
        self._stack.callback(found.close)
        return found if len(found) else None

    def _marks(self, rank: int, path: Path, log: RankLog, size: int, counted: FileMarks | None) -> Marks:
        if self.timed is None:
            return EvenMarks(size)
        if not size:
            return []
        marks: Marks | None = counted
        if marks is None:
            if self._of_events is None:
                self._of_events = log_times.marks_of_events(self._record.path)
            marks = self._of_events.get(rank)
            self.timed = OF_EVENTS if marks and self.timed != EVENLY else EVENLY
        if marks is None:
            return log_times.evenly(self._record, path, size)
        return StderrMarks(marks, log) if self._only_stderr else marks
