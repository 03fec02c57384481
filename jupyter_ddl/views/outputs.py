"""Defines the two kinds of output on a page; each sends itself when it has changed."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from jupyter_ddl.views.run_output import log_mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import RichOutput
    from jupyter_ddl.views.fold import Entry, Headings
    from jupyter_ddl.views.publish import Display, Publisher

_HEADING_CHARACTERS = 8  # about the length of a line's heading


class Room:
    """A number of lines and characters that entries use up."""

    def __init__(self, lines: int, characters: int) -> None:
        self.lines = lines
        self.characters = characters

    def has(self, entry: Entry) -> bool:
        """Whether the entry fits in what is left."""
        return self.lines >= line_count(entry) and self.characters >= _character_count(entry)

    def take(self, entry: Entry) -> None:
        """Use room, even more than there is."""
        self.lines -= line_count(entry)
        self.characters -= _character_count(entry)

    def give_back(self, entry: Entry) -> None:
        """Undo `take`."""
        self.lines += line_count(entry)
        self.characters += _character_count(entry)


def line_count(entry: Entry) -> int:
    """Return how many lines an entry shows as; for a rich one, its heading."""
    return entry.text.count("\n") + 1 if entry.kind == "text" else 1


def _character_count(entry: Entry) -> int:
    return len(entry.text) + line_count(entry) * _HEADING_CHARACTERS


class Block:
    """Lines of text in one display.

    Attributes:
        display: where it is shown.
        run: the run whose dashboard has these lines in its log; None for other text.
        entries: what it shows, in order.
        room: what it has left; for the caller to keep.
        hidden_lines: how many lines before its entries are only in the logs.
    """

    def __init__(self, display: Display, room: Room, run: str | None = None) -> None:
        self.display = display
        self.run = run
        self.entries: list[Entry] = []
        self.room = room
        self.hidden_lines = 0
        self._sent: str | None = None

    def split(self, *, in_order: bool) -> list[tuple[bool, list[Entry]]]:
        """Return its entries, those of a log apart from others: whether they are of one, and which.

        Args:
            in_order: keep the order of both; else those of a log are first.
        """
        entries = self.entries if in_order else sorted(self.entries, key=is_of_log, reverse=True)
        return [(is_log, list(group)) for is_log, group in groupby(entries, key=is_of_log)]

    def move(self, display: Display) -> None:
        """Show it in another display from the next `sync` on."""
        self.display = display
        self._sent = None

    def sync(self, publisher: Publisher, headings: Headings, logs: str | None, live: Sequence[str]) -> None:
        """Send the block if its text has changed."""
        lines: list[str] = []
        if self.hidden_lines:
            lines.append(more(self.hidden_lines, "line") + (f": {logs}" if logs else ""))
        for entry in self.entries:
            lines += headings.lines(entry.members, "" if entry.kind == "rich" else entry.text)
        lines += live
        text = "\n".join(lines)
        if text == self._sent or not (lines or self.display.is_published):
            return
        self._sent = text
        count = len(lines) + max(0, self.hidden_lines - 1)
        self.display.send(publisher, {"text/plain": text}, {} if self.run is None else log_mark(self.run, count))


class Rich:
    """A figure, a table, or another bundle that is more than text, in a display of its own.

    Attributes:
        display: where it is shown.
        heading_in: the block whose last line names the ranks; None for a display of an earlier cell.
        is_named: the rank gave it an id, so that it can be updated.
        is_blank: the rank cleared it.
    """

    def __init__(self, display: Display, bundle: RichOutput, heading_in: Block | None) -> None:
        self.display = display
        self.heading_in = heading_in
        self.is_named = bundle.display_id is not None
        self.show(bundle)

    @property
    def is_here(self) -> bool:
        """Whether its place is in this cell's output."""
        return self.heading_in is not None

    def show(self, bundle: RichOutput) -> None:
        """Display this from the next `sync` on."""
        self._shown: tuple[dict[str, Any], dict[str, Any]] | None = (bundle.data, bundle.metadata)
        self._is_due = True
        self.is_blank = False

    def blank(self) -> None:
        """Display nothing from the next `sync` on."""
        self._shown = ({"text/plain": ""}, {})
        self._is_due = self.display.is_published
        self.is_blank = True

    def move(self, display: Display) -> None:
        """Show it in another display from the next `sync` on."""
        self.display = display
        self._is_due = display.is_published or not self.is_blank

    def sync(self, publisher: Publisher, *, may_move: bool) -> None:
        """Send what is due, and keep it where it may move."""
        if self._is_due and self._shown is not None:
            self._is_due = False
            self.display.send(publisher, *self._shown)
        if not may_move:
            self._shown = None


def is_of_log(entry: Entry) -> bool:
    """Whether a dashboard has it in its log: a line of a stream, and no result, figure or report."""
    return entry.kind in ("stdout", "stderr")


def more(count: int, noun: str) -> str:
    """Return `… 12,412 more lines`."""
    return f"… {count:,} more {noun}{'' if count == 1 else 's'}"
