"""Renders a rank's log as lines for a screen: as a terminal would, harmless, and each of bounded length."""

from __future__ import annotations

from jupyter_ddl.views.line import LineBuffer


class LogText:
    """Text of a log in, finished lines out.

    Args:
        limit: characters of one line that are shown.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = LineBuffer(limit)

    def feed(self, text: str, more_characters: int = 0) -> list[str]:
        """Take text and return the lines that it finished.

        Args:
            text: as written, cut anywhere.
            more_characters: how many more characters the text's line has. Then `text` is this one line.
        """
        if not more_characters:
            return self._buffer.feed(text)
        line = LineBuffer(limit=len(text))
        rows = line.feed(text) + line.finish()
        shown = rows[-1] if rows else ""
        left = len(shown[self._limit :]) + more_characters
        return [*self._buffer.finish(), f"{shown[: self._limit]}… (+{left:,} characters)"]

    def finish(self) -> list[str]:
        """End the log: return the lines that were not finished."""
        return self._buffer.finish()
