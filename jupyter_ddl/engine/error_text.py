"""Formats any exception, of any length, as text that can be sent.

Runs on: every rank.
"""

from __future__ import annotations

import traceback

# Limits on an exception's text, and on one part of its traceback.
_LIMIT = 20_000
# IPython takes at least a millisecond for each frame that it formats.
_FRAMES = 200


def text_of(error: BaseException) -> str:
    """Return the exception's text, bounded, even where its own `__str__` raises."""
    try:
        return bounded(str(error))
    except Exception as second:  # noqa: BLE001  the user's `__str__` may raise anything, and must not hide the failure
        return f"<its text could not be read: {type(second).__name__}>"


def bounded(text: str, limit: int = _LIMIT) -> str:
    """Return a text that UTF-8 can encode; of one longer than `limit`, the beginning and the end."""
    # A string may have a lone surrogate; a message may not.
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    left_out = len(text) - limit
    return f"{text[: limit // 2]}… ({left_out:,} characters left out) …{text[-(limit // 2) :]}"


def is_recursion(error: BaseException) -> bool:
    """Return whether the exception's traceback is too deep to be formatted by IPython."""
    return sum(1 for _ in traceback.walk_tb(error.__traceback__)) > _FRAMES
