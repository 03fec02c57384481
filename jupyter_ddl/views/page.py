"""Lays out a cell's output: blocks of lines and rich outputs, in order, bounded to what a notebook can hold.

A block is one display of plain text. It takes some 50 lines, then the next begins, so an update never sends more than
a block. After `HEAD_LINES` lines, a last block keeps only the newest ones, under a line that counts the others.
Earlier blocks take no more lines, but a slower rank can still join a line in them, and `clear_output` empties them.

A run's dashboard stands above all this. It appears later than the first lines may, and an output cannot be put before
others: so it takes the first display, and what that showed, and all after it, moves on by one. From then on lines that
the dashboard has in its log have blocks of their own, which front ends may fold.
"""

from __future__ import annotations

import uuid
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from jupyter_ddl.views.fold import Headings
from jupyter_ddl.views.outputs import Block, Rich, Room, is_of_log, line_count, more
from jupyter_ddl.views.publish import Display

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
        self._numbers = count()
        self._outputs: list[Block | Rich] = []
        self._open: Block | None = None
        self._run: str | None = None
        self._tails: dict[str | None, Block] = {}
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
            self._tail_block(self._run).hidden_lines += unseen
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
            display = Display(name)
            display.is_published = True
            rich = self._rich_by_id[name] = Rich(display, bundle, heading_in=None)
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
        last = self._live_block() if live_lines else None
        while self._tail and self._tail_room.lines < len(live_lines):
            self._hide_first_of_tail()
        for output in self._outputs:
            if isinstance(output, Rich):
                output.sync(publisher, may_move=self._run is None)
            else:
                output.sync(publisher, self._headings, self._logs, live_lines if output is last else ())

    def give_top(self, run: str) -> Display:
        """Return the display above the output, for the run's dashboard, and mark what that has in its log.

        Send the page then. A display that a rank named stays where it is, for later cells to update: the dashboard is
        below the last of these.
        """
        self._run = run
        named = [at for at, one in enumerate(self._outputs) if isinstance(one, Rich) and one.is_named and one.is_here]
        first = named[-1] + 1 if named else 0
        below: list[Block | Rich] = []
        for output in self._outputs[first:]:
            below += [output] if isinstance(output, Rich) else self._parts(output)
        self._outputs[first:] = below
        self._resume()
        moving = [output for output in below if not isinstance(output, Rich) or output.is_here]
        displays = sorted((output.display for output in moving), key=lambda one: not one.is_published)
        displays.append(self._new_display())
        for output, display in zip(moving, displays[1:], strict=True):
            output.move(display)
        return displays[0]

    def _parts(self, block: Block) -> list[Block]:
        """Return a block as blocks of which each is of the log, or not."""
        # The tail's blocks are bounded together: two at most, whatever the order of what they hold.
        groups = block.split(in_order=block.room is not self._tail_room)
        parts = [block, *(Block(self._new_display(), block.room) for _ in groups[1:])]
        for part, (is_log, entries) in zip(parts, groups, strict=False):
            part.run = self._run if is_log else None
            part.entries = entries
            self._homes.update((entry.index, part) for entry in entries)
        for rich in self._rich.values():
            # Its heading is the last entry, or comes back there.
            if rich.heading_in is block:
                rich.heading_in = parts[-1]
        return parts

    def _resume(self) -> None:
        """Have the next entries join the last blocks."""
        self._open = None
        self._tails.clear()
        for output in self._outputs:
            if isinstance(output, Rich):
                self._open = None
                self._tails.clear()
            elif output.room is self._tail_room:
                self._tails[output.run] = output
            else:
                self._open = output

    def _live_block(self) -> Block:
        if self._head_is_full:
            return self._tail_block(self._run)
        if self._open is None or self._open.run != self._run:
            self._open = self._new_block(Room(BLOCK_LINES, BLOCK_CHARACTERS), self._run)
        return self._open

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
        self._place(entry, self._tail_block(self._run_of(entry)))
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
        block = self._tail_block(None) if self._head_is_full else self._head_block(entry)
        self._head.take(entry)
        self._place(entry, block)
        self._open = None
        self._tails.clear()
        display = self._new_display()
        if bundle.display_id is not None:
            display = Display(_display_name(bundle.rank, bundle.display_id))
        rich = Rich(display, bundle, block)
        if bundle.display_id is not None:
            self._rich_by_id[_display_name(bundle.rank, bundle.display_id)] = rich
        self._rich[entry.index] = rich
        self._outputs.append(rich)

    def _head_block(self, entry: Entry) -> Block:
        block, run = self._open, self._run_of(entry)
        if block is None or block.run != run or (block.entries and not block.room.has(entry)):
            block = self._open = self._new_block(Room(BLOCK_LINES, BLOCK_CHARACTERS), run)
        block.room.take(entry)
        return block

    def _tail_block(self, run: str | None) -> Block:
        """Return the tail's block for lines of a log, or for others; the tail's room bounds them, not their own."""
        if run not in self._tails:
            self._tails[run] = self._new_block(self._tail_room, run)
        return self._tails[run]

    def _new_block(self, room: Room, run: str | None) -> Block:
        block = Block(self._new_display(), room, run)
        self._outputs.append(block)
        return block

    def _run_of(self, entry: Entry) -> str | None:
        return self._run if is_of_log(entry) else None

    def _new_display(self) -> Display:
        return Display(f"ddl-{self._name}-{next(self._numbers)}")


def _display_name(rank: int, display_id: str) -> str:
    """Return the notebook's id of a rank's display: the same in every cell, so that later cells can update it."""
    return f"ddl-{rank}-{display_id}"
