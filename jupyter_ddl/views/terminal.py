"""Prints output in a terminal and in scripts: lines that no rank can join any more, which never change."""

from __future__ import annotations

import shutil
import sys
from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, TextIO

from jupyter_ddl.protocol.events import RankFailed, RankFinished
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.views.fold import Entry, Headings
from jupyter_ddl.views.line import LINE_LIMIT
from jupyter_ddl.views.transcript import Transcript, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import Event, RichOutput

GRACE_S = 0.3
_ERASE = "\r\x1b[K"


class TerminalView:
    """A `View` that prints. Its methods must be called by one thread at a time.

    A line is printed once every rank of the run has written it or a later one, or after a grace time, so that ranks
    that run side by side print a common line once. In a real terminal, progress bars share one updating line.

    Args:
        ranks: the ranks that run the cell.
        out: takes what ranks write to their standard output; default `sys.stdout`.
        err: the same for standard error; default `sys.stderr`.
        grace_s: how long a line waits for other ranks.
        line_limit: characters of one line that are printed.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        out: TextIO | None = None,
        err: TextIO | None = None,
        grace_s: float = GRACE_S,
        line_limit: int = LINE_LIMIT,
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._grace_s = grace_s
        self._is_terminal = self._out.isatty()
        self._headings = Headings(ranks)
        self._speaking = sum(1 << rank for rank in ranks)
        self._transcript = Transcript(self, line_limit)
        self._fresh: list[Entry] = []
        self._waiting: deque[tuple[float, Entry]] = deque()
        self._live = ""
        self._is_behind = False
        self._due_s: float | None = None

    def handle(self, event: Event) -> None:
        """Take an event; nothing is printed before `tick` or `flush`."""
        if isinstance(event, RankFinished | RankFailed | RankLost):
            if event.rank is not None:
                self._speaking &= ~(1 << event.rank)
        else:
            self._is_behind = self._transcript.handle(event) or self._is_behind

    def tick(self, now_s: float) -> None:
        """Print the lines that are settled. Call it about ten times a second."""
        self._advance(now_s)
        self._waiting.extend((now_s, entry) for entry in self._fresh)
        self._fresh.clear()
        passed = self._transcript.passed_by(self._speaking)
        settled: list[Entry] = []
        while self._waiting:
            since_s, entry = self._waiting[0]
            if entry.members and entry.index > passed and now_s - since_s < self._grace_s:
                break
            self._waiting.popleft()
            settled.append(entry)
        self._show(settled)

    def flush(self) -> None:
        """End unfinished lines and print all; for the end of the run."""
        self._transcript.finish()
        entries = [entry for _, entry in self._waiting] + self._fresh
        self._waiting.clear()
        self._fresh.clear()
        self._show(entries)

    def _advance(self, now_s: float) -> None:
        """Let lines of the same time join first."""
        if self._is_behind and self._due_s is None:
            self._due_s = now_s + self._grace_s / 2
        if self._due_s is not None and (now_s >= self._due_s or self._transcript.has_heard(self._speaking)):
            self._transcript.advance()
            self._is_behind, self._due_s = False, None

    # Called by the transcript.

    def absorb(self, entries: list[Entry]) -> None:
        """Take new entries, in order."""
        self._fresh += entries

    def withdraw(self, entries: list[Entry]) -> None:
        """Leave out withdrawn entries: `tick` sees that they have no members. Printed lines stay."""

    def vacant(self) -> list[Entry]:
        """Return nothing: no place on a terminal is reused."""
        return []

    def revived(self, entry: Entry) -> None:
        """Do nothing, since nothing is vacant."""

    def update(self, rank: int, display_id: str, bundle: RichOutput) -> None:
        """Print a display's new text."""
        self._fresh.append(Entry(-1, "rich", display_id, 1 << rank, bundle))

    def _show(self, entries: list[Entry]) -> None:
        """Print entries, and the live line after them."""
        live = self._live_line()
        if live == self._live and not entries:
            return
        if self._live:
            self._out.write(_ERASE)
        for stream, group in groupby((entry for entry in entries if entry.members), self._stream_of):
            stream.write("".join(map(self._lines_of, group)))
            stream.flush()
        self._out.write(live)
        self._out.flush()
        self._live = live

    def _stream_of(self, entry: Entry) -> TextIO:
        return self._err if entry.kind in ("stderr", "report") else self._out

    def _lines_of(self, entry: Entry) -> str:
        if entry.index >= 0:
            self._transcript.close(entry)
        text = entry.text if entry.bundle is None else text_of(entry.bundle)
        entry.bundle = None
        return "".join(f"{line}\n" for line in self._headings.lines(entry.members, text))

    def _live_line(self) -> str:
        """Return the first live line, and how many more there are, cut to the terminal's width."""
        if not self._is_terminal:
            return ""
        lines = [line for members, text in self._transcript.live() for line in self._headings.lines(members, text)]
        if not lines:
            return ""
        rest = f" (+{len(lines) - 1})" if len(lines) > 1 else ""
        # One column stays free: a terminal that wraps would not return to the line's beginning.
        width = shutil.get_terminal_size().columns - 1 - len(rest)
        return lines[0][: max(0, width)] + rest
