"""Renders one stream of one rank as a terminal would, as lines of plain text.

A program writes as if to a terminal: it rewrites its line with carriage returns and backspaces (Keras' progress bar),
moves up to earlier lines (tqdm's nested bars), and colours. `LineBuffer` takes that text, cut anywhere, and gives
finished lines and the rows that may still change. Colours are removed, every other control character becomes harmless,
and a very long line is kept only in part: the whole of it is in the rank's log.
"""

from __future__ import annotations

import re

LINE_LIMIT = 2_000
"""Characters of one line that are kept for display; the whole line is in a log."""

_ROW_LIMIT = 32
"""Rows that can still change; a program that moves further up than this is not followed."""

_HELD_LIMIT = 256
"""The longest escape sequence that is waited for; a longer one is shown as text."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]+)"
    r"|(?P<newlines>\n+)|(?P<returns>\r+)|(?P<backs>\x08+)"
    r"|\x1b\[(?P<argument>[0-?]*)[ -/]*(?P<csi>[@-~])"
    r"|(?P<ignored>\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~])"
    r"|(?P<other>.)",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]*\x1b?|[ -/]*)\Z")
# Keras draws the done and the remaining part with the same character in two colours; without colours every bar would
# look full, so the remaining part gets the light line.
_KERAS_REST = re.compile("\x1b\\[37m(━+)")


def bounded(line: str, length: int | None = None, limit: int = LINE_LIMIT) -> str:
    """Return a line without trailing spaces, cut to what is kept for display.

    Args:
        line: the line, or its first `limit` characters.
        length: how long the whole line is, where `line` is only its beginning.
        limit: characters that are kept.
    """
    line = line.rstrip(" ")
    length = len(line) if length is None else length
    if length <= limit:
        return line
    return f"{line[:limit]}… (+{length - limit:,} characters)"


def plain_lines(text: str) -> list[str]:
    """Return a whole text as a terminal would leave it."""
    buffer = LineBuffer()
    return buffer.feed(text) + buffer.finish()


class LineBuffer:
    """One rank's one stream: text in, finished lines out, `live` rows in between.

    A row is finished when a chunk ends with the cursor below it. A program that has moved up before (`_reach` rows) may
    do so again, so that many rows above the cursor stay live until new lines push them out.

    Args:
        limit: characters of one line that are kept.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._begin()

    def _begin(self) -> None:
        self._rows = [_Row(self._limit)]
        self._row = 0
        self._column = 0
        self._reach = 0
        self._held = ""

    @property
    def live(self) -> tuple[str, ...]:
        """The rows that may still change, without empty ones at the end."""
        if len(self._rows) == 1 and not self._rows[0].text:
            return ()
        return tuple(_without_empty_end(_shown(self._rows)))

    def feed(self, text: str) -> list[str]:
        """Take text as written, cut anywhere, and return the lines that it finished."""
        if self._held:
            text, self._held = self._held + text, ""
        if "\x1b" in text:
            text = self._hold_unfinished(text)
            text = _COLOUR.sub("", _KERAS_REST.sub(lambda match: "─" * len(match[1]), text))
        if "\r\n" in text:
            text = text.replace("\r\n", "\n")
        at_end = len(self._rows) == 1 and not self._reach and self._rows[0].ends_at(self._column)
        if at_end and _CONTROL.search(text) is None:
            return self._append(text)
        for match in _TOKEN.finditer(text):
            self._apply(match)
        return self._finish_rows_above()

    def finish(self) -> list[str]:
        """End the stream, or its unfinished line: return the live rows, and reset."""
        lines = _without_empty_end(_shown(self._rows))
        self._begin()
        return lines

    def _hold_unfinished(self, text: str) -> str:
        match = _UNFINISHED.search(text, max(0, len(text) - _HELD_LIMIT))
        if match is None:
            return text
        self._held = match[0]
        return text[: match.start()]

    def _append(self, text: str) -> list[str]:
        """Append text without control characters to the only row: nearly all output is of this kind."""
        lines = text.split("\n")
        row = self._rows[0]
        row.put(self._column, lines[0])
        if len(lines) == 1:
            self._column += len(text)
            return []
        lines[0] = row.shown()
        self._rows[0] = _Row(self._limit)
        self._rows[0].put(0, last := lines.pop())
        self._column = len(last)
        lines[1:] = [line.rstrip(" ") for line in lines[1:]]
        if max(map(len, lines)) > self._limit:
            lines[1:] = [bounded(line, limit=self._limit) for line in lines[1:]]
        return lines

    def _apply(self, match: re.Match[str]) -> None:
        what, token = match.lastgroup, match[0]
        if what == "text":
            self._put(token)
        elif what == "newlines":
            self._down(len(token), new=True)
            self._column = 0
        elif what == "returns":
            self._column = 0
        elif what == "backs":
            self._column = max(0, self._column - len(token))
        elif what == "csi":
            self._control(match["csi"], match["argument"])
        elif what == "other":
            self._put(_visible(token))

    def _put(self, text: str) -> None:
        self._rows[self._row].put(self._column, text)
        self._column += len(text)

    def _control(self, command: str, argument: str) -> None:
        number = int(argument[:4]) if argument[:4].isdecimal() else None
        count = number or 1
        if command in "AF":
            self._up(count)
        elif command in "BE":
            self._down(count, new=False)
        elif command == "C":
            self._column = min(self._column + count, max(self._column, self._limit))
        elif command == "D":
            self._column = max(0, self._column - count)
        elif command == "G":
            self._column = min(count - 1, self._limit)
        elif command == "K":
            self._rows[self._row].erase(self._column, number or 0)
        elif command == "J":
            self._erase_from_here(number or 0)
        if command in "EF":
            self._column = 0

    def _up(self, count: int) -> None:
        count = min(count, _ROW_LIMIT)
        self._reach = max(self._reach, count)
        # The target row was finished by an earlier chunk: give it a new one, and keep the rows below apart.
        missing = max(0, min(count - self._row, _ROW_LIMIT - len(self._rows)))
        self._rows[:0] = [_Row(self._limit, made_by_moving_up=True) for _ in range(missing)]
        self._row = max(0, self._row + missing - count)

    def _down(self, count: int, *, new: bool) -> None:
        self._row += count
        if not new:
            self._row = min(self._row, len(self._rows) - 1)
        elif self._row >= len(self._rows):
            self._rows.extend(_Row(self._limit) for _ in range(self._row + 1 - len(self._rows)))

    def _erase_from_here(self, which: int) -> None:
        # Rows above stay even where the program clears all, so that the view loses no output.
        self._rows[self._row].erase(self._column, min(which, 2))
        if which != 1:
            del self._rows[self._row + 1 :]

    def _finish_rows_above(self) -> list[str]:
        done = max(0, self._row - self._reach, len(self._rows) - _ROW_LIMIT)
        done = min(done, self._row)
        lines = _shown(self._rows[:done])
        del self._rows[:done]
        self._row -= done
        self._reach = max(0, self._reach - done)
        return lines


class _Row:
    """One line of the terminal; `length` counts what is past the limit too."""

    __slots__ = ("length", "limit", "made_by_moving_up", "text")

    def __init__(self, limit: int, *, made_by_moving_up: bool = False) -> None:
        self.limit = limit
        self.text = ""
        self.length = 0
        self.made_by_moving_up = made_by_moving_up

    def ends_at(self, column: int) -> bool:
        """Whether text put at `column` would only be appended."""
        return column >= len(self.text)

    def put(self, column: int, text: str) -> None:
        """Overwrite what is at `column` and after."""
        if not text:
            return
        end = column + len(text)
        if column < self.limit:
            before = self.text[:column].ljust(column)
            self.text = before + text[: self.limit - column] + self.text[end:]
        self.length = max(self.length, column + len(text.rstrip(" ")))

    def erase(self, column: int, which: int) -> None:
        """Erase from `column` on (0), up to it (1), or all (2)."""
        if which == 1:
            self.text = self.text[column + 1 :].rjust(len(self.text))
        else:
            column = column if which == 0 else 0
            self.text = self.text[:column]
            self.length = min(self.length, column)

    def shown(self) -> str:
        """The row as a line for display."""
        if self.length <= self.limit:
            return self.text.rstrip(" ")
        return bounded(self.text, self.length, self.limit)


def _shown(rows: list[_Row]) -> list[str]:
    return [row.shown() for row in rows if row.text or not row.made_by_moving_up]


def _without_empty_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _visible(control: str) -> str:
    """Return the replacement of a control character: Unicode's picture of it, or nothing for a bell or a NUL."""
    code = ord(control)
    if code in (0x00, 0x07):
        return ""
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"
