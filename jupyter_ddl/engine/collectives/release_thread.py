"""Runs what ends a blocked collective: in a thread of its own, or here where this process can start none.

A rank that fails since it is at its limit of memory or of threads (`ulimit -v`, `ulimit -u`) must release the others
all the same.

Runs on: every rank.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def begin(work: Callable[[], object], name: str, *, daemon: bool) -> threading.Thread | None:
    """Begin the work; return its thread, or None where it has been done here.

    Args:
        work: ends collectives. It may wait for a peer that is frozen, for which it has the thread.
        name: of the thread.
        daemon: the end of Python does not wait for it.
    """
    thread = threading.Thread(target=work, name=name, daemon=daemon)
    try:
        thread.start()
    except RuntimeError:  # "can't start new thread"
        work()
        return None
    return thread
