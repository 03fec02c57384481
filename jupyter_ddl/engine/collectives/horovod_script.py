"""Shuts down the Horovod of a script, which is the script's own: no patch of ours is in it.

Runs on: every rank of a script.
"""

from __future__ import annotations

import atexit
import threading
from typing import Any

from jupyter_ddl.engine.collectives import release_thread


class ScriptShutdown:
    """Horovod's shutdown, once, in a thread of its own: it waits where a peer is frozen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, basics: Any) -> None:
        """Shut Horovod down, where the script has initialised it; the ranks in a collective get an error now."""
        with self._lock:
            if self._thread is None and basics.is_initialized():
                # Stock init has registered it for the exit, where it would be a second one at the same time.
                atexit.unregister(basics.shutdown)
                self._thread = release_thread.begin(basics.shutdown, "jupyter_ddl shutdown", daemon=True)

    def has_ended(self, within_s: float) -> bool:
        """Return whether it has ended, within so many seconds, or has not begun."""
        if self._thread is None:
            return True
        self._thread.join(within_s)
        return not self._thread.is_alive()
