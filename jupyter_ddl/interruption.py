"""Ctrl-C and the stop button, taken between our own steps and never in the middle of one.

Runs on: kernel.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_noted: threading.Event | None = None


@contextmanager
def interrupts_noted() -> Iterator[threading.Event]:
    """Have Ctrl-C and the stop button set what is yielded, in place of raising anywhere in our own steps.

    Blocks can be nested: the outermost one raises KeyboardInterrupt at its end if the interrupt was not cleared. Other
    threads than the main one get no interrupts, and change nothing here.
    """
    global _noted
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    if _noted is not None:
        yield _noted
        return
    noted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: noted.set())
    _noted = noted
    try:
        yield noted
    finally:
        _noted = None
        signal.signal(signal.SIGINT, before)
    if noted.is_set():
        raise KeyboardInterrupt
