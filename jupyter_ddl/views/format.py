"""Formats numbers to be read at a glance, in tables, pictures and lists alike.

The browser has the same (labextension/src/components/format.ts); both are tested on
labextension/schema/format.fixture.json. Digits are those of the shortest decimal that is the number, rounded half away
from zero, as JavaScript's Intl.NumberFormat has it.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

# Shown in the browser and the terminal where nothing was measured.
NOTHING = "-"
_DIGITS = 3
_WHOLE_FROM = 100
_WHOLE_TO = 1e15
_PLAIN_FROM = 1e-4
_ROUND = Context(prec=_DIGITS, rounding=ROUND_HALF_UP)
_GIB = 2**30
_MINUTE_S, _HOUR_S = 60, 3_600


def counted(count: int, what: str) -> str:
    """Return a number with its noun, in the plural but for one."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def number(value: float | None) -> str:
    """Return a number with three digits, or whole from 100 on: 0.00123, 12.3, 1,234, 1.2e-6; nan, inf and -inf.

    Example:
        >>> number(1234.5), number(0.067849), number(float("nan"))
        ('1,235', '0.0678', 'nan')
    """
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    size = abs(value)
    if size == 0:
        return "0"
    if _WHOLE_FROM <= size < _WHOLE_TO:
        return whole(value)
    rounded = _decimal(value).normalize(_ROUND)
    if _PLAIN_FROM <= size < _WHOLE_FROM:
        return f"{rounded:f}"
    digits = "".join(map(str, rounded.as_tuple().digits))
    mantissa = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{'-' if value < 0 else ''}{mantissa}e{rounded.adjusted()}"


def percent(share: float | None) -> str:
    """Return a share as whole percents: 0.125 is 13%."""
    if share is None:
        return NOTHING
    if not math.isfinite(share):
        return number(share)
    return f"{whole(share * 100)}%"


def milliseconds(seconds: float | None) -> str:
    """Return a duration of a step: 12.3 ms."""
    return NOTHING if seconds is None else f"{number(seconds * 1000)} ms"


def gibibytes(size_bytes: float | None) -> str:
    """Return a size in memory: 2 GiB, 0.806 GiB."""
    return NOTHING if size_bytes is None else f"{number(size_bytes / _GIB)} GiB"


def duration(seconds: float | None) -> str:
    """Return a duration of a run: 0.45 s, 0:04, 1:07, 2:07:09."""
    if seconds is None:
        return NOTHING
    if not math.isfinite(seconds):
        return number(seconds)
    if abs(seconds) < 1 or abs(seconds) >= _WHOLE_TO:
        return f"{number(seconds)} s"
    rounded = int(_decimal(abs(seconds)).quantize(Decimal(1), ROUND_HALF_UP))
    hours, rest = divmod(rounded, _HOUR_S)
    minutes, left = divmod(rest, _MINUTE_S)
    sign = "-" if seconds < 0 else ""
    return f"{sign}{hours}:{minutes:02}:{left:02}" if hours else f"{sign}{minutes}:{left:02}"


def whole(value: float) -> str:
    """Return a finite number without its fraction: 1,235; of one beyond a thousand million million three digits."""
    if abs(value) >= _WHOLE_TO:
        return number(value)
    return f"{_decimal(value).quantize(Decimal(1), ROUND_HALF_UP) + 0:,}"


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))
