"""Lays out a cell's output: blocks of lines and rich outputs, in order, bounded to what a notebook can hold.

A block is one display of plain text. It takes some 50 lines, then the next begins, so an update never sends more than
a block. After `HEAD_LINES` lines, a last block keeps only the newest ones, under a line that counts the others.
Earlier blocks take no more lines, but a slower rank can still join a line in them, and `clear_output` empties them.
"""

from __future__ import annotations

import uuid
from collections import deque
from typing import TYPE_CHECKING

from jupyter_ddl.views.fold import Headings
from jupyter_ddl.views.outputs import Block, Rich, Room, line_count, more

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import RichOutput
    from jupyter_ddl.views.fold import Entry
    from jupyter_ddl.views.publish import Publisher

BLOCK_LINES = 50
HEAD_LINES = 300
TAIL_LINES = 100
LIVE_LINES = 32
# The characters' shares keep the saved notebook under 64 KB where lines are long.
BLOCK_CHARACTERS = 8_000
HEAD_CHARACTERS = 36_000
TAIL_CHARACTERS = 12_000


class Page:
    """The output under one cell; a `transcript.Reader`. Nothing is sent before `sync`."""

    def __init__(self, ranks: Sequence[int], logs: str | None) -> None:
        self._headings = Headings(ranks)
        self._logs = logs
        self._name = uuid.uuid4().hex
        self._outputs: list[Block | Rich] = []
        self._open: Block | None = None
        self._homes: dict[int, Block] = {}
        self._rich: dict[int, Rich] = {}
        self._rich_by_id: dict[str, Rich] = {}
        self._vacant: list[Entry] = []
        self._head = Room(HEAD_LINES, HEAD_CHARACTERS)
        self._head_is_full = False
        # One line of the tail counts the hidden lines.
        self._tail_room = Room(TAIL_LINES - 1, TAIL_CHARACTERS)
        self._tail: deque[Entry] = deque()

    def absorb(self, entries: list[Entry]) -> None:
        """Lay out new entries, in order."""
        if self._head_is_full and entries[0].kind in ("stdout", "stderr"):
            # A flood: lines that would be pushed out at once are only counted.
            unseen = max(0, len(entries) - TAIL_LINES)
            self._tail_block().hidden_lines += unseen
            entries = entries[unseen:]
        for entry in entries:
            if entry.kind == "rich":
                self._place_rich(entry)
                continue
            self._head_is_full = self._head_is_full or not self._head.has(entry)
            if self._head_is_full:
                self._place_in_tail(entry)
            else:
                self._head.take(entry)
                self._place(entry, self._head_block(entry))

    def withdraw(self, entries: list[Entry]) -> None:
        """Stop showing entries that all ranks have withdrawn."""
        for entry in entries:
            block = self._homes.pop(entry.index, None)
            if block is None:
                continue
            block.entries.remove(entry)
            if entry.kind == "rich":
                rich = self._rich[entry.index]
                rich.blank()
                if not rich.is_named:
                    self._vacant.append(entry)
            elif entry in self._tail:
                self._tail.remove(entry)
                self._tail_room.give_back(entry)
            else:
                self._head.give_back(entry)
                block.room.give_back(entry)

    def vacant(self) -> list[Entry]:
        """Return withdrawn rich entries whose place can be used again."""
        return list(self._vacant)

    def revived(self, entry: Entry) -> None:
        """Show a vacant entry's new bundle in its old place."""
        self._vacant.remove(entry)
        rich = self._rich[entry.index]
        if entry.bundle is not None and rich.heading_in is not None:
            rich.show(entry.bundle)
            self._place(entry, rich.heading_in)
            entry.bundle = None

    def update(self, rank: int, display_id: str, bundle: RichOutput) -> None:
        """Change what a rank displayed under an id, in this cell or an earlier one."""
        name = _display_name(rank, display_id)
        rich = self._rich_by_id.get(name)
        if rich is None:
            rich = self._rich_by_id[name] = Rich(name, bundle, heading_in=None)
            self._outputs.append(rich)
        elif not rich.is_blank:
            rich.show(bundle)

    def sync(self, publisher: Publisher, live: Sequence[tuple[int, str]]) -> None:
        """Send every output that has changed, with the live lines at the end.

        Args:
            publisher: takes what is sent.
            live: bit mask of ranks, and text (one line or more), of each.
        """
        live_lines = self._live_lines(live)
        if live_lines and self._open is None:
            self._open = self._tail_block() if self._head_is_full else self._new_block()
        while self._tail and self._tail_room.lines < len(live_lines):
            self._hide_first_of_tail()
        for output in self._outputs:
            if isinstance(output, Rich):
                output.sync(publisher)
            else:
                output.sync(publisher, self._headings, self._logs, live_lines if output is self._open else ())

    def _live_lines(self, live: Sequence[tuple[int, str]]) -> list[str]:
        lines: list[str] = []
        for members, text in live:
            lines += self._headings.lines(members, text)
        if len(lines) > LIVE_LINES:
            lines[LIVE_LINES - 1 :] = [more(len(lines) - LIVE_LINES + 1, "unfinished line")]
        return lines

    def _place(self, entry: Entry, block: Block) -> None:
        block.entries.append(entry)
        self._homes[entry.index] = block

    def _place_in_tail(self, entry: Entry) -> None:
        self._place(entry, self._tail_block())
        self._tail.append(entry)
        self._tail_room.take(entry)
        while self._tail_room.lines < 0 or self._tail_room.characters < 0:
            self._hide_first_of_tail()

    def _hide_first_of_tail(self) -> None:
        entry = self._tail.popleft()
        self._tail_room.give_back(entry)
        block = self._homes.pop(entry.index)
        block.entries.remove(entry)
        block.hidden_lines += line_count(entry)

    def _place_rich(self, entry: Entry) -> None:
        """Put the heading at the end of a block, and the bundle after it; later entries begin a new block."""
        assert entry.bundle is not None
        bundle, entry.bundle = entry.bundle, None
        block = self._tail_block() if self._head_is_full else self._head_block(entry)
        self._head.take(entry)
        self._place(entry, block)
        self._open = None
        name = self._new_name()
        if bundle.display_id is not None:
            name = _display_name(bundle.rank, bundle.display_id)
        rich = Rich(name, bundle, block)
        if bundle.display_id is not None:
            self._rich_by_id[name] = rich
        self._rich[entry.index] = rich
        self._outputs.append(rich)

    def _head_block(self, entry: Entry) -> Block:
        block = self._open
        if block is None or (block.entries and not block.room.has(entry)):
            block = self._new_block()
        block.room.take(entry)
        return block

    def _tail_block(self) -> Block:
        """Return the open block of the tail; its entries are bounded by the tail's room, not by its own."""
        if self._open is None or self._open.room is not self._tail_room:
            self._new_block(self._tail_room)
        assert self._open is not None
        return self._open

    def _new_block(self, room: Room | None = None) -> Block:
        self._open = Block(self._new_name(), room or Room(BLOCK_LINES, BLOCK_CHARACTERS))
        self._outputs.append(self._open)
        return self._open

    def _new_name(self) -> str:
        return f"ddl-{self._name}-{len(self._outputs)}"


def _display_name(rank: int, display_id: str) -> str:
    """Return the notebook's id of a rank's display: the same in every cell, so that later cells can update it."""
    return f"ddl-{rank}-{display_id}"
