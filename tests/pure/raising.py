"""Functions that raise, and the wait for what a thread does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


DEADLINE_S = 30.0


def raising(error: BaseException) -> Callable[..., Any]:
    def do(*_: Any, **__: Any) -> Any:
        raise error

    return do


def eventually(call: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s:
        if call():
            return True
        time.sleep(0.02)
    return False
