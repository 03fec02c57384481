"""Says when a rank wrote which part of its log, in the records of `rank-K.times`.

All have one length, so that a reader can bisect them. A mark precedes what is written at its time. The clock is that of
the process that writes the log.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_DIGITS = 15
_SECONDS = 20
MARK_BYTES = 2 * (_DIGITS + 1) + _SECONDS + 1
# Less often than the rank writes, but as often as a reader can see.
MARK_INTERVAL_S = 0.1
MARK_INTERVAL_BYTES = 1 << 16
# For a shell's printf, which gets an offset and what `date +%s.%N` prints; it has not counted the lines.
SHELL_MARK = rf"%0{_DIGITS}d {'-' * _DIGITS} %{_SECONDS}s\n"
_MARK = re.compile(rb"([0-9]{15}) ([0-9]{15}|-{15}) +([0-9]{1,10})\.([0-9]{9})\n")


class Mark(NamedTuple):
    """When a part of a log was written.

    Attributes:
        offset: where in the log it begins.
        lines: how many lines have ended before it; None where that was not counted.
        at_us: microseconds since the epoch.
    """

    offset: int
    lines: int | None
    at_us: int


def mark_record(offset: int, lines: int, at_s: float) -> bytes:
    r"""Return a mark as it stands in the file.

    Example:
        >>> mark_record(4096, 12, 1.5)
        b'000000000004096 000000000000012          1.500000000\n'
    """
    return f"{offset:0{_DIGITS}d} {lines:0{_DIGITS}d} {at_s:{_SECONDS}.9f}\n".encode()


def mark_of(record: bytes) -> Mark | None:
    """Return the mark of a record; None where no program of ours wrote it."""
    found = _MARK.fullmatch(record)
    if found is None:
        return None
    lines = None if found[2].startswith(b"-") else int(found[2])
    return Mark(int(found[1]), lines, int(found[3]) * 1_000_000 + int(found[4]) // 1_000)
