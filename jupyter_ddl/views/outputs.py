"""Defines the two kinds of output on a page; each sends itself when it has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import RichOutput
    from jupyter_ddl.views.fold import Entry, Headings
    from jupyter_ddl.views.publish import Publisher

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
        entries: what it shows, in order.
        room: what it has left; for the caller to keep.
        hidden_lines: how many lines before its entries are only in the logs.
    """

    def __init__(self, display_id: str, room: Room) -> None:
        self.entries: list[Entry] = []
        self.room = room
        self.hidden_lines = 0
        self._display_id = display_id
        self._sent: str | None = None

    def sync(self, publisher: Publisher, headings: Headings, logs: str | None, live: Sequence[str]) -> None:
        """Send the block if its text has changed."""
        lines: list[str] = []
        if self.hidden_lines:
            lines.append(more(self.hidden_lines, "line") + (f": {logs}" if logs else ""))
        for entry in self.entries:
            lines += headings.lines(entry.members, "" if entry.kind == "rich" else entry.text)
        lines += live
        text = "\n".join(lines)
        if self._sent is None:
            if not lines:
                return
            publisher.publish({"text/plain": text}, {}, self._display_id)
        elif text != self._sent:
            publisher.update({"text/plain": text}, {}, self._display_id)
        self._sent = text


class Rich:
    """A figure, a table, or another bundle that is more than text, in a display of its own.

    Attributes:
        heading_in: the block whose last line names the ranks; None for a display of an earlier cell.
        is_named: the rank gave it an id, so that it can be updated.
        is_blank: the rank cleared it.
    """

    def __init__(self, display_id: str, bundle: RichOutput, heading_in: Block | None) -> None:
        self.heading_in = heading_in
        self.is_named = bundle.display_id is not None
        self._display_id = display_id
        self._is_published = heading_in is None
        self.show(bundle)

    def show(self, bundle: RichOutput) -> None:
        """Display this from the next `sync` on."""
        self._due: tuple[dict[str, Any], dict[str, Any]] | None = (bundle.data, bundle.metadata)
        self.is_blank = False

    def blank(self) -> None:
        """Display nothing from the next `sync` on."""
        self._due = ({"text/plain": ""}, {}) if self._is_published else None
        self.is_blank = True

    def sync(self, publisher: Publisher) -> None:
        """Send what is due."""
        if self._due is None:
            return
        send = publisher.update if self._is_published else publisher.publish
        send(*self._due, self._display_id)
        self._is_published = True
        self._due = None


def more(count: int, noun: str) -> str:
    """Return `… 12,412 more lines`."""
    return f"… {count:,} more {noun}{'' if count == 1 else 's'}"
