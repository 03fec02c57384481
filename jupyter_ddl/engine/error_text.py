"""Formats any exception, of any length, as text that can be sent.

Runs on: every rank.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Limits on an exception's text, and on one part of its traceback.
_LIMIT = 20_000
# IPython takes at least a millisecond for each frame that it formats.
_FRAMES = 200
# The attribute of an exception whose text is not to be asked for again, and why.
_GIVEN_UP = "_jupyter_ddl_text"


def text_of(error: BaseException) -> str:
    """Return the exception's text, bounded, even where its own `__str__` raises."""
    if is_given_up(error):
        return str(attributes_of(error)[_GIVEN_UP])
    try:
        return bounded(str(error))
    except Exception as second:  # noqa: BLE001  the user's `__str__` may raise anything, and must not hide the failure
        return f"<its text could not be read: {type(second).__name__}>"


def words_of(error: BaseException) -> str:
    """Return the texts that the exception holds, bounded: its own `__str__` is not run.

    What a library of collectives raises has its words there: in its arguments, or as TensorFlow's in an attribute.
    """
    held = (*error.args, *attributes_of(error).values())
    return bounded(" ".join(part for part in held if isinstance(part, str)))


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that led to it, which a traceback shows too."""
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and all(following is not one for one in found):
        found.append(following)
        yield following
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)


def give_up_text(error: BaseException, why: str) -> None:
    """Have `text_of` say why the text could not be read, and run the exception's `__str__` no more."""
    attributes_of(error)[_GIVEN_UP] = f"<its text could not be read: {why}>"


def is_given_up(error: BaseException) -> bool:
    """Return whether `give_up_text` was called."""
    return _GIVEN_UP in attributes_of(error)


def attributes_of(error: BaseException) -> dict[str, object]:
    """Return an exception's attributes, whatever its class may have done to their lookup."""
    found: dict[str, object] = object.__getattribute__(error, "__dict__")
    return found


def plain_traceback(error: BaseException) -> list[str]:
    """Return the lines of Python's own traceback; without those that led to it where one's text was given up."""
    if any(is_given_up(one) for one in chain_of(error)):
        return [*traceback.format_tb(error.__traceback__), f"{type(error).__name__}: {text_of(error)}\n"]
    return traceback.format_exception(error)


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
