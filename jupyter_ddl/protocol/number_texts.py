"""Formats numbers, sizes and durations to be read at a glance: in tables, pictures, lists and sentences alike.

The browser has the same (labextension/src/model/number_texts.ts); both are tested on
labextension/schema/format.fixture.json. Digits are those of the shortest decimal that is the number, rounded half away
from zero, as JavaScript's Intl.NumberFormat has it.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

# Shown in the browser and the terminal where nothing was measured.
NOTHING = "-"
_DIGITS, _LOSS_DIGITS, _SECONDS_DIGITS = 3, 4, 2
_WHOLE_TO = 1e15
_PLAIN_FROM = 1e-4
_MIB, _GIB = 2**20, 2**30
# Below it a number of GiB is a number of zeros.
_GIB_FROM = 0.1 * _GIB
_SIZES = ("B", "kB", "MB", "GB", "TB")
# From here on three digits are those of the next unit.
_SIZE_FROM = 999.5
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def counted(count: int, what: str) -> str:
    """Return a number with its noun, in the plural but for one: 1 rank, 1,024 ranks."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def number(value: float | None) -> str:
    """Return a number with three digits, or whole from 100 on: 0.00123, 12.3, 1,234, 1.2e-6; nan, inf and -inf.

    Example:
        >>> number(1234.5), number(0.067849), number(float("nan"))
        ('1,235', '0.0678', 'nan')
    """
    return NOTHING if value is None else _shown(value, _DIGITS)


def loss(value: float | None) -> str:
    """Return a loss, of which late epochs change little, with four digits: 0.06785."""
    return NOTHING if value is None else _shown(value, _LOSS_DIGITS)


def rate(per_s: float | None, what: str = "") -> str:
    """Return how many a second: 1,234 /s, 1,234 samples/s."""
    return NOTHING if per_s is None else f"{number(per_s)} {what}/s"


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


def memory_size(size_bytes: float | None) -> str:
    """Return a size in memory, which devices and hosts have by powers of two: 2 GiB, 0.806 GiB, 85.7 MiB."""
    if size_bytes is None:
        return NOTHING
    if 0 < abs(size_bytes) < _GIB_FROM:
        return f"{number(size_bytes / _MIB)} MiB"
    return f"{number(size_bytes / _GIB)} GiB"


def size(size_bytes: float | None) -> str:
    """Return a size of files, or of what is sent: 512 B, 1.5 GB."""
    if size_bytes is None:
        return NOTHING
    power = 0
    while power < len(_SIZES) - 1 and abs(size_bytes) >= _SIZE_FROM:
        size_bytes /= 1000
        power += 1
    return f"{number(size_bytes)} {_SIZES[power]}"


def duration(seconds: float | None) -> str:
    """Return how long something took: 0.45 s, 12 s, 3 min 5 s, 1 h 02 min, 4 d 03 h."""
    if seconds is None:
        return NOTHING
    if not math.isfinite(seconds):
        return number(seconds)
    length_s = abs(seconds)
    sign = "-" if seconds < 0 else ""
    if length_s < _MINUTE_S - 0.5 or length_s >= _WHOLE_TO:
        return f"{_shown(seconds, _SECONDS_DIGITS)} s"
    whole_s = _rounded(length_s)
    if whole_s < _HOUR_S:
        return f"{sign}{whole_s // _MINUTE_S} min {whole_s % _MINUTE_S} s"
    return sign + _hours(length_s)


def time_left(seconds: float | None) -> str:
    """Return how long something still takes, which is not known to the second: 40 s, 6 min, 1 h 02 min, 4 d 03 h."""
    if seconds is None:
        return NOTHING
    if not math.isfinite(seconds):
        return number(seconds)
    left_s = max(0.0, seconds)
    if left_s < _MINUTE_S - 0.5 or left_s >= _WHOLE_TO:
        return f"{whole(left_s)} s"
    minutes = _rounded(left_s / _MINUTE_S)
    return f"{minutes} min" if minutes < _MINUTE_S else _hours(left_s)


def whole(value: float) -> str:
    """Return a finite number without its fraction: 1,235; of one beyond a thousand million million three digits."""
    if abs(value) >= _WHOLE_TO:
        return number(value)
    return f"{_decimal(value).quantize(Decimal(1), ROUND_HALF_UP) + 0:,}"


def _shown(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    length = abs(value)
    whole_from = 10 ** (digits - 1)
    if length == 0:
        return "0"
    if whole_from <= length < _WHOLE_TO:
        return whole(value)
    rounded = _decimal(value).normalize(Context(prec=digits, rounding=ROUND_HALF_UP))
    if _PLAIN_FROM <= length < whole_from:
        return f"{rounded:,f}"
    shown = "".join(map(str, rounded.as_tuple().digits))
    mantissa = shown if len(shown) == 1 else f"{shown[0]}.{shown[1:]}"
    return f"{'-' if value < 0 else ''}{mantissa}e{rounded.adjusted()}"


def _hours(length_s: float) -> str:
    """Return an hour or more: 1 h 02 min, 4 d 03 h."""
    minutes = _rounded(length_s / _MINUTE_S)
    if minutes * _MINUTE_S < _DAY_S:
        return f"{minutes // 60} h {minutes % 60:02} min"
    hours = _rounded(length_s / _HOUR_S)
    return f"{hours // 24:,} d {hours % 24:02} h"


def _rounded(value: float) -> int:
    return math.floor(value + 0.5)


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))
