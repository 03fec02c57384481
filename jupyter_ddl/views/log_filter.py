"""Renders single lines of a log as text, and says which of them are wanted: by a text, an expression, or as errors.

What looks like an error is said here, and in the browser's `model/logs.ts`, which looks at lines as they come; a test
holds them alike.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_ddl.views.line import LINE_LIMIT, LineBuffer, bounded

if TYPE_CHECKING:
    from collections.abc import Callable

ERROR = r"\b(?:\w*Error|\w*Exception|Traceback|FATAL)\b|Fatal Python error|Segmentation fault"
"""What a line has that looks like an error: what Python, MPI and C++ libraries write of theirs."""

MATCHED_CHARACTERS = 10_000
"""An expression sees so much of a line."""

_ERROR_WORDS = re.compile(rb"Error|Exception|Traceback|FATAL|Fatal Python|Segmentation fault")
_LINE_BYTES = 1 << 16
# What changes text that precedes or follows it.
_MOVES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# A terminal shows nothing for it, and a hole in a file has any number.
_NOTHING = b"\x00"
_MOVES_BYTES = (
    b"\1\2\3\4\5\6\7\x08\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"
)


class LineFilter:
    """What is wanted of a log.

    Args:
        pattern: a regular expression; None for all lines.
        may_skip: says of a block of lines that none of them is wanted, which is quicker than to look at each.
    """

    def __init__(self, pattern: re.Pattern[str] | None = None, may_skip: Callable[[bytes], bool] | None = None) -> None:
        self._pattern = pattern
        self.may_skip = may_skip

    def shown(self, data: bytes) -> str | None:
        """Return a line as it is shown; None where it is not wanted."""
        text = line_text(data)
        if self._pattern is not None and self._pattern.search(text) is None:
            return None
        return bounded(text) if len(text) > LINE_LIMIT else text


def filter_of(text: str, *, is_expression: bool, is_exact: bool) -> LineFilter:
    """Return the filter of lines that have a text, or match an expression.

    Args:
        text: the text.
        is_expression: it is a regular expression.
        is_exact: capitals matter.

    Raises:
        ValueError: it is no regular expression, or one that is too large.
    """
    flags = 0 if is_exact else re.IGNORECASE
    if is_expression:
        try:
            return LineFilter(re.compile(text, flags))
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(str(error)) from error
    wanted = text.encode(errors="replace")
    wanted = wanted if is_exact else wanted.lower()

    def lacks(block: bytes) -> bool:
        # A carriage return or a colour may come between its letters.
        block = block.translate(None, _NOTHING)
        moves = len(block) != len(block.translate(None, _MOVES_BYTES))
        return not moves and wanted not in (block if is_exact else block.lower())

    # Other letters' capitals may be other bytes.
    return LineFilter(re.compile(re.escape(text), flags), lacks if is_exact or text.isascii() else None)


def errors() -> LineFilter:
    """Return the filter of lines that look like errors."""
    return LineFilter(re.compile(ERROR), lambda block: _ERROR_WORDS.search(block) is None)


def line_text(data: bytes) -> str:
    """Return a line as a terminal would leave it, without colours, and of bounded length."""
    if len(data) > _LINE_BYTES:
        # After a carriage return, the text that follows overwrites the line.
        data = data[-_LINE_BYTES:] if b"\r" in data[-_LINE_BYTES:-1] else data[:_LINE_BYTES]
    text = data.translate(None, _NOTHING).decode("utf-8", "replace")
    if _MOVES.search(text) is None:
        return bounded(text, limit=MATCHED_CHARACTERS)
    buffer = LineBuffer(MATCHED_CHARACTERS)
    rows = buffer.feed(text) + buffer.finish()
    return rows[-1] if rows else ""
