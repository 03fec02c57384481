"""Defines after how long without use ranks are ended, and times such as 30m as users write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jupyter_ddl.errors import InvalidInput

NEVER = "never"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])", re.ASCII)


@dataclass(frozen=True)
class IdleStop:
    """When idle ranks are ended.

    Attributes:
        after_s: how long no run has used them by then, in seconds.
        by: what says so, e.g. "--idle-stop 30m".
    """

    after_s: float
    by: str


def seconds_of(text: str) -> float:
    """Return a time in seconds.

    Raises:
        InvalidInput: it is none.

    Example:
        >>> seconds_of("30m")
        1800.0
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidInput("A time is a number and one of s, m, h and d.", repr(text[:80]), "Write 45s, 30m, 2h or 1d.")
    return float(match[1]) * _SECONDS[match[2]]


def idle_stop_of(text: str, by: str) -> IdleStop | None:
    """Return when idle ranks are ended; None for "never".

    Args:
        text: as the user, a variable or a profile writes it.
        by: which of them does, with the text.

    Raises:
        InvalidInput: it is neither a time nor "never".

    Example:
        >>> idle_stop_of("30m", "--idle-stop 30m")
        IdleStop(after_s=1800.0, by='--idle-stop 30m')
    """
    if text == NEVER:
        return None
    try:
        after_s = seconds_of(text)
    except (InvalidInput, TypeError):
        after_s = 0.0
    if after_s < 1:
        raise InvalidInput(
            "Idle ranks are ended after a time of at least 1s, or never.",
            by[:200],
            "Write 45s, 30m, 2h, 1d or never.",
        )
    return IdleStop(after_s, by)
