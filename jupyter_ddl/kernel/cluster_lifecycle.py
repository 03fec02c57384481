"""Ending ranks and starting others, once at a time: a notebook and a panel may ask for it at the same moment.

Runs on: kernel.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterError, RunInterrupted
from jupyter_ddl.host.interrupts import interrupts_noted

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICK_S = 0.1


class Life:
    """Of one session, whether its ranks are being ended or restarted. Safe to use from any thread.

    Attributes:
        given_up: set when ranks that are being started are not wanted any more.
    """

    def __init__(self) -> None:
        self.given_up = threading.Event()
        self._lock = threading.Lock()
        self._is_settled = threading.Event()
        self._is_settled.set()

    @property
    def is_restarting(self) -> bool:
        """Whether a restart goes on."""
        return not self._is_settled.is_set()

    @contextmanager
    def restarting(self) -> Iterator[None]:
        """Restart in the block.

        Raises:
            ClusterError: that goes on already, or the ranks are just being ended.
        """
        if not self._lock.acquire(blocking=False):
            raise ClusterError(
                "Ranks are restarted once at a time. Received: a restart while they are being ended or started. "
                "Wait for its end."
            )
        self.given_up.clear()
        self._is_settled.clear()
        try:
            yield
        finally:
            self._is_settled.set()
            self._lock.release()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """End the ranks in the block; a restart that goes on is given up first."""
        self.given_up.set()
        with self._lock:
            yield

    def wait_settled(self) -> None:
        """Wait until no restart goes on.

        Raises:
            RunInterrupted: KeyboardInterrupt came; the restart goes on.
        """
        with interrupts_noted() as interrupted:
            while not self._is_settled.wait(_TICK_S):
                if interrupted.came:
                    interrupted.came = False
                    raise RunInterrupted("New ranks are still being started; the cell was not run.")
