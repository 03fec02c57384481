"""Says for how long a host may stay away before its ranks are lost."""

from __future__ import annotations

import math
import os

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.paths import HOST_LOST_VARIABLE

HOST_LOST_AFTER_S = 60.0
# Within it every silent rank has been reported, and its host was asked.
_LEAST_S = 15.0


def host_lost_after_s() -> float:
    """Return the seconds after which a host that does not answer is lost; infinite for never.

    Raises:
        InvalidInput: the variable that sets them is no such number.
    """
    text = os.environ.get(HOST_LOST_VARIABLE, "").strip()
    if not text:
        return HOST_LOST_AFTER_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds == 0:
        return math.inf
    if not seconds >= _LEAST_S:
        raise InvalidInput(
            f"A host may stay away for {_LEAST_S:g} s at least.",
            f"{HOST_LOST_VARIABLE}={text[:80]}",
            f"Set it to seconds, by default {HOST_LOST_AFTER_S:g}, or to 0 for ever.",
        )
    return seconds
