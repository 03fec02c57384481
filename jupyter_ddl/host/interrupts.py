"""Defers Ctrl-C and the stop button to the end of our own steps, so that none is interrupted in the middle.

Runs on: kernel.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class Interruption:
    """Whether an interrupt came; the handler of SIGINT meanwhile.

    Attributes:
        came: whether it did. No lock: a signal handler must take none that its own thread may hold.
    """

    def __init__(self) -> None:
        self.came = False

    def __call__(self, _signum: int, _frame: FrameType | None) -> None:
        """Note an interrupt."""
        self.came = True


@contextmanager
def interrupts_noted(*, ends_the_cell: bool = False) -> Iterator[Interruption]:
    """Record Ctrl-C and the stop button in what is yielded, instead of raising in the middle of our own steps.

    Blocks can be nested: the outermost one raises KeyboardInterrupt at its end if the interrupt was not cleared.
    Threads other than the main one get no interrupts, so the block changes nothing in them.

    Args:
        ends_the_cell: nothing of the user's follows the block, and ipykernel sets SIGINT's handler again after it.
            An interrupt that comes between the two, as the second press of a double click does, has nothing left to
            stop; in IPython's display of an error it would take the place of that error, and in ipykernel's reply it
            would leave a cell that never ends. Source: IPython 9.18, `InteractiveShell.showtraceback`; ipykernel 7.4,
            `Kernel.dispatch_shell`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Interruption()
        return
    before = signal.getsignal(signal.SIGINT)
    if isinstance(before, Interruption):
        yield before
        return
    noted = Interruption()
    signal.signal(signal.SIGINT, noted)
    try:
        yield noted
    finally:
        if not (ends_the_cell and before is signal.default_int_handler):
            signal.signal(signal.SIGINT, before)
    if noted.came:
        raise KeyboardInterrupt
