"""Turns events into entries, the same for the notebook and the terminal.

`Transcript` owns the line buffers and the fold and knows no output; a `Reader` takes the entries and shows them.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_ddl.protocol.events import OutputChunk, OutputCleared, RichOutput, StallReported
from jupyter_ddl.views.fault import render_fault
from jupyter_ddl.views.fold import Fold
from jupyter_ddl.views.line import LINE_LIMIT, LineBuffer, plain_lines
from jupyter_ddl.views.merge import merged
from jupyter_ddl.views.run_output import WIDGET_MIME

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.fold import Entry, Kind


@dataclass(frozen=True)
class _Report:
    """The report of a stall, which each rank of the run shows."""

    lines: tuple[str, ...]


_Said = OutputChunk | RichOutput | OutputCleared | _Report

_BATCH = 1_000  # entries passed to the reader at once: well inside the fold's window
_MERGED_LINES = 100  # of one rank at once; a rank that writes more is not matched line by line
_TEXT_LINES = 90  # of one display or result that is only text
_TEXT_CHARACTERS = 8_000


class Reader(Protocol):
    """What shows the entries."""

    def absorb(self, entries: list[Entry]) -> None:
        """Take new entries, in order; their `members` may grow afterwards."""

    def withdraw(self, entries: list[Entry]) -> None:
        """Stop showing entries that all ranks have withdrawn."""

    def vacant(self) -> list[Entry]:
        """Return withdrawn "rich" entries whose place can be used again, first one first."""

    def revived(self, entry: Entry) -> None:
        """Show a vacant entry's new bundle in its old place."""

    def update(self, rank: int, display_id: str, bundle: RichOutput) -> None:
        """Change what a rank displayed under an id, in this cell or an earlier one."""


class Transcript:
    """Reads events; `handle` must be called by one thread at a time."""

    def __init__(self, reader: Reader, line_limit: int = LINE_LIMIT) -> None:
        self._reader = reader
        self._line_limit = line_limit
        self._fold = Fold()
        self._buffers: dict[tuple[int, Kind], LineBuffer] = {}
        self._clear_at_next: set[int] = set()
        self._events: dict[int, deque[_Said]] = {}
        self._heard = 0

    def handle(self, event: Event) -> bool:
        """Take an event and return whether it has output. `advance` makes entries of it."""
        if isinstance(event, StallReported):
            report = _Report(tuple(plain_lines(render_fault(event.fault))))
            for rank in event.ranks:
                self._note(rank, report)
            return True
        if not isinstance(event, OutputChunk | RichOutput | OutputCleared):
            return False
        self._note(event.rank, event)
        return True

    def has_heard(self, ranks: int) -> bool:
        """Whether each of `ranks` (a bit mask) has written something since `advance`."""
        return self._heard & ranks == ranks

    def advance(self) -> None:
        """Make entries of all events so far, ordered so that common lines fold best."""
        events, self._events = dict(sorted(self._events.items())), {}
        self._heard = 0
        while events:
            self._add_lines({rank: self._lines_first_in(queue) for rank, queue in events.items()})
            for queue in events.values():
                if queue:
                    self._handle_other(queue.popleft())
            events = {rank: queue for rank, queue in events.items() if queue}

    def finish(self) -> None:
        """End every unfinished line, after `advance`."""
        self.advance()
        for (rank, kind), buffer in sorted(self._buffers.items()):
            self._add(rank, kind, buffer.finish())

    def live(self) -> list[tuple[int, str]]:
        """Return what may still change (progress bars, unfinished lines), folded: members and text, by rank."""
        rows: dict[tuple[Kind, tuple[str, ...]], int] = {}
        for (rank, kind), buffer in sorted(self._buffers.items()):
            if live := buffer.live:
                rows[kind, live] = rows.get((kind, live), 0) | 1 << rank
        return [(members, "\n".join(live)) for (_, live), members in rows.items()]

    def close(self, entry: Entry) -> None:
        """Let no further rank join an entry, because it cannot be changed any more."""
        self._fold.close(entry)

    def passed_by(self, ranks: int) -> int:
        """Return the index up to which none of `ranks` (a bit mask, of fewer and fewer) can join an entry any more."""
        return self._fold.lowest_cursor(ranks)

    def _note(self, rank: int, said: _Said) -> None:
        self._events.setdefault(rank, deque()).append(said)
        self._heard |= 1 << rank

    def _lines_first_in(self, queue: deque[_Said]) -> list[tuple[Kind, str]]:
        """Take the chunks at the queue's head, and return the lines that they finish."""
        lines: list[tuple[Kind, str]] = []
        while queue and isinstance(event := queue[0], OutputChunk | _Report):
            queue.popleft()
            if isinstance(event, OutputChunk):
                lines += ((event.stream, line) for line in self._chunk(event))
            else:
                lines += (("report", line) for line in event.lines)
        return lines

    def _add_lines(self, by_rank: dict[int, list[tuple[Kind, str]]]) -> None:
        if max(map(len, by_rank.values())) <= _MERGED_LINES:
            for rank, (kind, line) in merged(by_rank):
                self._add(rank, kind, [line])
            return
        for rank, lines in by_rank.items():
            for kind, group in groupby(lines, key=itemgetter(0)):
                self._add(rank, kind, [line for _, line in group])

    def _handle_other(self, event: _Said) -> None:
        if isinstance(event, RichOutput):
            self._rich(event)
        elif isinstance(event, OutputCleared):
            if event.wait:
                self._clear_at_next.add(event.rank)
            else:
                self._clear(event.rank)

    def _chunk(self, event: OutputChunk) -> list[str]:
        """Return the lines that a chunk finishes."""
        self._clear_if_due(event.rank)
        key: tuple[int, Kind] = (event.rank, event.stream)
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = LineBuffer(self._line_limit)
        if event.skipped_bytes:
            # The text before the gap and the text after it are not one line.
            gap = f"… {event.skipped_bytes:,} bytes are only in the log of rank {event.rank}"
            return [*buffer.finish(), gap, *buffer.feed(event.text)]
        return buffer.feed(event.text)

    def _add(self, rank: int, kind: Kind, lines: list[str]) -> None:
        for start in range(0, len(lines), _BATCH):
            added = self._fold.add(rank, kind, lines[start : start + _BATCH])
            if added:
                self._reader.absorb(added)

    def _rich(self, event: RichOutput) -> None:
        self._clear_if_due(event.rank)
        # A widget's state is in the rank's process, which no browser reaches: it would show as an error.
        data = {mime: value for mime, value in event.data.items() if mime != WIDGET_MIME}
        if not data:
            return
        bundle = RichOutput(event.run, event.rank, event.kind, data, event.metadata, event.display_id)
        if event.kind == "update":
            if event.display_id is not None:
                self._reader.update(event.rank, event.display_id, bundle)
        elif event.display_id is None and data.keys() == {"text/plain"}:
            self._add(event.rank, "text", [text_of(bundle)])
        else:
            self._add_bundle(bundle)

    def _add_bundle(self, bundle: RichOutput) -> None:
        """Show a bundle once for all ranks that sent the same; one that has an id can be updated, so it is its own."""
        rank = bundle.rank
        name = _digest(bundle) if bundle.display_id is None else f"{rank} {bundle.display_id}"
        if bundle.display_id is None and not self._fold.can_join(rank, "rich", name):
            for entry in self._reader.vacant():
                if self._fold.revive(entry, rank, name):
                    entry.bundle = bundle
                    self._reader.revived(entry)
                    return
        added = self._fold.add(rank, "rich", [name])
        for entry in added:
            entry.bundle = bundle
        if added:
            self._reader.absorb(added)

    def _clear_if_due(self, rank: int) -> None:
        if rank in self._clear_at_next:
            self._clear_at_next.remove(rank)
            self._clear(rank)

    def _clear(self, rank: int) -> None:
        for (owner, _), buffer in self._buffers.items():
            if owner == rank:
                buffer.finish()
        emptied = self._fold.withdraw(rank)
        if emptied:
            self._reader.withdraw(emptied)


def text_of(bundle: RichOutput) -> str:
    """Return a bundle as plain text: its text/plain, made harmless and bounded, or else the names of its types."""
    text: Any = bundle.data.get("text/plain")
    if text is None:
        return f"<{', '.join(sorted(bundle.data))}>"
    lines = plain_lines(str(text))
    kept: list[str] = []
    size = 0
    for line in lines[:_TEXT_LINES]:
        size += len(line)
        if kept and size > _TEXT_CHARACTERS:
            break
        kept.append(line)
    if len(kept) < len(lines):
        kept.append(f"… (+{len(lines) - len(kept):,} lines)")
    return "\n".join(kept)


def _digest(bundle: RichOutput) -> str:
    form = json.dumps([bundle.data, bundle.metadata], sort_keys=True)
    return hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
