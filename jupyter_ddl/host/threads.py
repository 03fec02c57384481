"""Runs a thread of the kernel whose failure is reported, so that nothing waits for it for ever.

Runs on: kernel.
"""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import HostUnfit

if TYPE_CHECKING:
    from collections.abc import Callable


class Supervised(threading.Thread):
    """A daemon thread that reports what its work raised.

    Args:
        work: what it runs.
        name: the thread's.
        failed: called in the thread with what `work` raised, after that was printed.
        args: of `work`.
    """

    def __init__(
        self,
        work: Callable[..., object],
        name: str,
        failed: Callable[[BaseException], object],
        args: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._failed = failed
        self._arguments = args

    def start(self) -> None:
        """Start the thread.

        Raises:
            HostUnfit: this process can start no more.
        """
        try:
            super().start()
        except RuntimeError as error:
            raise HostUnfit(
                "A kernel with ranks must be able to start threads.",
                f"{error}, {threading.active_count()} Python threads",
                "Restart the kernel, or raise the limit of threads (`ulimit -u`, pids.max of the container).",
            ) from error

    def run(self) -> None:
        """Do the work."""
        try:
            self._work(*self._arguments)
        except BaseException as error:  # noqa: BLE001  SystemExit too would end the thread silently
            print_error(error)
            self._failed(error)


def print_error(error: BaseException) -> None:
    """Print an error of ours with its traceback, where there is still something to print on."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:  # noqa: BLE001  a closed standard error must not prevent what else is done about the error
        return


class ErrorsOnce:
    """Prints the errors of one part of our code: those from one place once."""

    def __init__(self) -> None:
        self._places: set[tuple[str, str, int | None]] = set()

    def tell(self, error: BaseException) -> None:
        """Print an error, if it is the first from its place."""
        frame = (traceback.extract_tb(error.__traceback__) or [traceback.FrameSummary("", 0, "")])[-1]
        place = type(error).__name__, frame.filename, frame.lineno
        if place not in self._places:
            self._places.add(place)
            print_error(error)


def described(error: BaseException) -> str:
    """Render an exception as a part of a sentence, also where its own text is not available."""
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001  an error of any class
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
