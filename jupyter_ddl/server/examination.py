"""Examines this host as `jupyter ddl doctor` does, and keeps what was found: it takes seconds, and two ranks."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_ddl.doctor import Check

    Checks = tuple[Check, ...]

KEPT_S = 300.0


class Examination:
    """The newest checks of this host."""

    def __init__(self) -> None:
        # Of several that ask, one examines.
        self._lock = asyncio.Lock()
        self._found: Checks = ()
        self._until_s: float | None = None

    async def checks(self, in_thread: Callable[[Callable[[], Checks]], Awaitable[Checks]]) -> Checks:
        """Return what was found in the last `KEPT_S`, or is found now.

        Args:
            in_thread: calls a function that takes seconds.
        """
        async with self._lock:
            if self._until_s is None or time.monotonic() >= self._until_s:
                self._found = await in_thread(_examine)
                self._until_s = time.monotonic() + KEPT_S
            return self._found


def _examine() -> Checks:
    # Here, and not at the server's start: it imports what finds TensorFlow and MPI.
    from jupyter_ddl import doctor

    return tuple(doctor.examine())
