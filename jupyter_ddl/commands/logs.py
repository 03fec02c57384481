"""Shares between `%ddl logs` and `jupyter ddl logs`: the options, and printing the lines, each under its rank.

Runs on: kernel, or the terminal's process.
"""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from jupyter_ddl.commands.runs import add_run
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.rank_sets import compact, parse
from jupyter_ddl.runs.logs import RankLog, log_files, spans_of
from jupyter_ddl.runs.store import RUNNING, UNKNOWN, read_record, resolve
from jupyter_ddl.views.line import LINE_LIMIT
from jupyter_ddl.views.log_text import LogText

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from jupyter_ddl.runs.store import RunRecord

TERMINAL_LINE_LIMIT = 10_000
NOTEBOOK_LINES = 10_000
NOTEBOOK_CHARACTERS = 1_000_000
"""Characters of all ranks together that a notebook gets by default. Jupyter's server forwards 1 MB a second."""

_FOLLOW_S = 0.2
_PRINTED_LINES = 1_000  # at once


def add_logs_options(parser: ArgumentParser) -> None:
    """Add the options of `logs`."""
    add_run(parser)
    parser.add_argument("-r", "--ranks", help="which ranks, e.g. 0,2-3 (default: all)")
    parser.add_argument("--grep", metavar="RE", help="only lines in which the regular expression is found")
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines of each rank")
    parser.add_argument("--stderr", action="store_true", help="only what was written to standard error")


def print_logs(arguments: Namespace, *, in_notebook: bool) -> None:
    """Print a run's logs, rank after rank.

    Raises:
        InvalidInput: an option's value breaks its rule, or there is no such run.
    """
    printer, record = _begin(arguments, LINE_LIMIT if in_notebook else TERMINAL_LINE_LIMIT)
    logs = log_files(record.path)
    missing = [rank for rank in printer.ranks if rank not in logs]
    for rank in printer.ranks:
        if rank in logs:
            if in_notebook and arguments.tail is None:
                printer.print_end(rank, logs[rank])
            else:
                printer.print_rank(rank, logs[rank], arguments.tail)
    if missing:
        print(f"[{compact(missing)}] no log", file=sys.stderr)


def follow_logs(arguments: Namespace) -> None:
    """Print a run's logs as they grow, until the run is over."""
    printer, record = _begin(arguments, TERMINAL_LINE_LIMIT)
    printer.follow(record, arguments.tail)


def _begin(arguments: Namespace, line_limit: int) -> tuple[_Printer, RunRecord]:
    if arguments.tail is not None and arguments.tail < 0:
        raise InvalidInput("--tail takes a number of at least 0.", f"--tail {arguments.tail}", "Pass how many lines.")
    pattern = None if arguments.grep is None else _pattern(arguments.grep)
    record = resolve(arguments.run)
    ranks = record.ranks
    if arguments.ranks is not None:
        ranks = parse(arguments.ranks, max(record.world_size, 1))
        others = set(ranks) - set(record.ranks)
        if others:
            rule = "Only the ranks that ran the cell have logs."
            raise InvalidInput(rule, f"rank {compact(others)}", f"{record.run} ran on {compact(record.ranks)}.")
    return _Printer(ranks, pattern, line_limit, only_stderr=arguments.stderr), record


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        remedy = "Put a backslash before a character that is meant literally."
        raise InvalidInput("--grep takes a regular expression.", f"{text!r}: {error}", remedy) from error


class _Printer:
    """Prints lines of logs as they were asked for, each under its rank."""

    def __init__(
        self, ranks: tuple[int, ...], pattern: re.Pattern[str] | None, line_limit: int, *, only_stderr: bool
    ) -> None:
        self.ranks = ranks
        self._pattern = pattern
        self._line_limit = line_limit
        self._only_stderr = only_stderr
        self._width = len(f"[{max(ranks, default=0)}]")

    def print_rank(self, rank: int, path: Path, tail: int | None) -> None:
        """Print a rank's log, or the last `tail` lines of it."""
        with RankLog(path, only_stderr=self._only_stderr) as log:
            # How much matches a pattern is not known before it is read.
            start = 0 if tail is None or self._pattern else log.lines_before(log.size(), tail)
            lines = self._lines(log, start)
            self._print(rank, lines if tail is None else deque(lines, maxlen=min(tail, sys.maxsize)))

    def print_end(self, rank: int, path: Path) -> None:
        """Print as much of the end of a rank's log as a notebook can hold, under a line that counts the rest."""
        count = max(1, NOTEBOOK_LINES // len(self.ranks))
        with RankLog(path, only_stderr=self._only_stderr) as log:
            start = 0 if self._pattern else log.lines_before(log.size(), count)
            kept, before = _last(self._lines(log, start), count, NOTEBOOK_CHARACTERS // len(self.ranks))
            before += log.count_lines(0, start)
        if before:
            noun = "line" if before == 1 else "lines"
            kept.appendleft(f"… {before:,} earlier {noun}: add --tail {before + len(kept)}")
        self._print(rank, kept)

    def follow(self, record: RunRecord, tail: int | None) -> None:
        """Print the logs so far and new lines, until the run is over."""
        followed: dict[int, _Followed] = {}
        is_over = False
        while not is_over:
            # Checked before reading, so that all that was written until then is read.
            is_over = read_record(record.path).state not in (RUNNING, UNKNOWN)
            for rank, path in log_files(record.path).items():
                if rank in self.ranks:
                    if rank not in followed:
                        followed[rank] = _Followed(path, self._line_limit, only_stderr=self._only_stderr, tail=tail)
                    self._print(rank, self._matching(followed[rank].lines(is_over=is_over)))
            sys.stdout.flush()
            if not is_over:
                time.sleep(_FOLLOW_S)

    def _lines(self, log: RankLog, start: int) -> Iterator[str]:
        return self._matching(_rendered(log, LogText(self._line_limit), start, log.size(), is_end=True))

    def _matching(self, lines: Iterator[str]) -> Iterator[str]:
        return lines if self._pattern is None else filter(self._pattern.search, lines)

    def _print(self, rank: int, lines: Iterable[str]) -> None:
        heading = f"[{rank}]".ljust(self._width) + " "
        batch: list[str] = []
        for line in lines:
            batch.append((heading + line).rstrip(" ") + "\n")
            if len(batch) == _PRINTED_LINES:
                sys.stdout.write("".join(batch))
                batch.clear()
        sys.stdout.write("".join(batch))


class _Followed:
    """A log that may grow, and how far it has been read. Its file is not kept open: there may be a thousand."""

    def __init__(self, path: Path, line_limit: int, *, only_stderr: bool, tail: int | None) -> None:
        # A rank first appends to its log, then records which part is standard error.
        self._path = spans_of(path) if only_stderr else path
        self._log = RankLog(path, only_stderr=only_stderr)
        self._text = LogText(line_limit)
        self._size_bytes = -1
        with self._log:
            self._position = 0 if tail is None else self._log.lines_before(self._log.size(), tail)

    def lines(self, *, is_over: bool) -> Iterator[str]:
        """Yield the lines that have ended since the last call; at the run's end, all the rest."""
        try:
            size_bytes = self._path.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            size_bytes = 0
        if size_bytes == self._size_bytes and not is_over:
            return
        self._size_bytes = size_bytes
        with self._log:
            end = self._log.size() if is_over else self._log.whole_lines_end(self._position)
            yield from _rendered(self._log, self._text, self._position, end, is_end=is_over)
            self._position = end


def _rendered(log: RankLog, text: LogText, start: int, end: int, *, is_end: bool) -> Iterator[str]:
    for piece in log.pieces(start, end):
        yield from text.feed(piece.text, piece.more_characters)
    if is_end:
        yield from text.finish()


def _last(lines: Iterator[str], count: int, characters: int) -> tuple[deque[str], int]:
    """Return the last lines, within a number of lines and characters, and how many come before them."""
    kept: deque[str] = deque()
    left_out = 0
    for line in lines:
        kept.append(line)
        characters -= len(line)
        while len(kept) > count or (characters < 0 and len(kept) > 1):
            characters += len(kept.popleft())
            left_out += 1
    return kept, left_out
