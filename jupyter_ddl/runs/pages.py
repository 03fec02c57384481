"""Reads pages of a rank's log, at a cost that does not depend on the log's size.

Positions are offsets in the log's bytes, as in `runs.logs`. A page begins at a line's beginning and has whole lines; of
a line that is longer than MAX_PAGE_BYTES each page has a piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_ddl.runs.logs import RankLog

MAX_PAGE_BYTES = 1 << 20
# How far before a position its line's beginning is searched: less than a piece of a long line, whose next piece begins
# where this one ends.
MAX_BACK_BYTES = MAX_PAGE_BYTES - 64
MAX_SEARCH_BYTES = 32 << 20
_BLOCK_BYTES = 1 << 20
_BACK_BYTES = 1 << 16
# A character of UTF-8 has at most three bytes after its first.
_CONTINUATION_BYTES = 3


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        text: whole lines; invalid UTF-8 replaced.
        unfinished: the text after the last line's end, at the end of a log that still grows; it is not in `text`,
            and the next page begins with it.
        offset: where the text begins.
        next: where the next page begins.
        size: how many bytes there are by now.
    """

    text: str
    unfinished: str
    offset: int
    next: int
    size: int


def page(log: RankLog, offset: int, limit: int, *, grows: bool) -> Page:
    """Return the page at a position, which may be anywhere: it is moved back to its line's beginning.

    Args:
        log: the log, open.
        offset: the position.
        limit: bytes at most, or one line if that is longer.
        grows: more may be written: an unfinished line at the end is returned separately.
    """
    size = log.size()
    begin = _line_begin(log, min(offset, size))
    data = log.read(begin, min(limit, MAX_PAGE_BYTES))
    cut = data.rfind(b"\n") + 1
    if not cut:
        data += log.read(begin + len(data), MAX_PAGE_BYTES - len(data))
        cut = data.find(b"\n") + 1
        data = data[: cut or None]
    is_end = begin + len(data) >= size
    if is_end and not grows:
        cut = len(data)
    elif not cut and not is_end:
        cut = _whole_characters(data)
    rest = data[cut:] if is_end else b""
    return Page(_text(data[:cut]), _text(rest), begin, begin + cut, size)


def search(log: RankLog, text: str, start: int) -> tuple[int | None, int]:
    """Return where a text first occurs from a position on, and where to continue; case is ignored.

    Args:
        log: the log, open.
        text: of one line.
        start: the position.

    Returns:
        The offset, None where it is not in the next MAX_SEARCH_BYTES; and the position after what was searched.
    """
    # Only ASCII's case is ignored: other letters may change their length, and so the offset.
    wanted = text.encode(errors="replace").lower()
    end = min(log.size(), start + MAX_SEARCH_BYTES)
    at, held = start, b""
    while at < end:
        data = log.read(at, min(_BLOCK_BYTES, end - at))
        if not data:
            break
        block = held + data
        place = block.lower().find(wanted)
        if place >= 0:
            found = at - len(held) + place
            return found, found + len(wanted)
        at += len(data)
        held = block[len(block) - len(wanted) + 1 :] if len(wanted) > 1 else b""
    return None, max(start, at)


def _line_begin(log: RankLog, position: int) -> int:
    """Return where the line of a position begins; the position itself in a line that begins too far before it."""
    at, floor = position, max(0, position - MAX_BACK_BYTES)
    while at > floor:
        begin = max(floor, at - _BACK_BYTES)
        place = log.read(begin, at - begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        at = begin
    if floor == 0:
        return 0
    # Not within a character.
    before = log.read(position - _CONTINUATION_BYTES, _CONTINUATION_BYTES)
    return position - len(before) + _whole_characters(before)


def _whole_characters(data: bytes) -> int:
    """Return how many bytes of a piece of a line are whole characters."""
    for back in range(1, min(_CONTINUATION_BYTES + 1, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            # The first byte of a character gives its length; any other byte counts as one character.
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return len(data) - back if length > back else len(data)
    return len(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
