"""Shows what the build is doing, and for how long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGED_EVERY_PCT = 20


class Progress:
    """One line a step: rewritten in place on a terminal, a line each 20 % elsewhere (a log, a notebook, make).

    Args:
        stream: where the lines go.
        clock: seconds, monotonic.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._start = clock()
        self._in_place = stream.isatty()
        self._text = ""
        self._logged_pct = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since this was made."""
        return self._clock() - self._start

    def step(self, text: str) -> None:
        """Begin a step that `text` describes."""
        self._end_line()
        self._text = text
        self._logged_pct = 0
        self._show(text)

    def percent(self, done_pct: int) -> None:
        """Show how far the step is."""
        line = f"{self._text} {done_pct} %"
        if self._in_place:
            self._show(line)
        elif done_pct >= self._logged_pct + _LOGGED_EVERY_PCT:
            self._logged_pct = done_pct
            self._show(line)

    def done(self, text: str) -> None:
        """Show a last line."""
        self._end_line()
        self._text = ""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def _show(self, line: str) -> None:
        stamped = f"[{self.elapsed_s:4.0f} s] {line}"
        # \x1b[K clears what a longer earlier line left behind.
        self._stream.write(f"\r{stamped}\x1b[K" if self._in_place else f"{stamped}\n")
        self._stream.flush()

    def _end_line(self) -> None:
        if self._in_place and self._text:
            self._stream.write("\n")
