"""Turns a release into KeyboardInterrupt in the cell's own code, and nowhere else.

Runs on: every rank. `arm` and `disarm` are called in the main thread, `request` in ipykernel's control thread.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import deque
from functools import partial
from queue import SimpleQueue
from signal import pthread_kill, pthread_sigmask
from time import sleep
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.debugging.pydevd_link import what_pydevd_does
from jupyter_ddl.host.patching import Layer, patch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType, TracebackType


# How long the main thread has to handle a signal. C++ code handles none and need not be woken often. The next run's
# interrupt waits at most this long for the last one's.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5
# Bound here, as `sleep` and `pthread_kill` are: a cell may replace what it likes in modules.
_MAIN = threading.main_thread().ident or 0
_SIGINT = signal.SIGINT


class Interrupt(KeyboardInterrupt):
    """A KeyboardInterrupt that notifies when it is dropped before any code has handled it.

    Python code that C++ calls back may be where a signal is noticed, and C++ may clear what it raises: a loop over a
    tf.data.Dataset then continued for ever, once in some tens of interrupts.

    Args:
        dropped: called then, in whatever code runs; it must not take a lock.
    """

    def __init__(self, dropped: Callable[[], None]) -> None:
        super().__init__()
        self._dropped = dropped

    def __del__(self) -> None:
        if not _is_handled(self.__traceback__):
            self._dropped()


# What the user is shown.
Interrupt.__name__ = Interrupt.__qualname__ = "KeyboardInterrupt"
Interrupt.__module__ = "builtins"


def _is_handled(trace: TracebackType | None) -> bool:
    """Return whether Python code has caught the exception whose traceback this is.

    The first frame of the traceback is the one that the exception reached last: one that caught it has continued since.
    """
    return trace is not None and trace.tb_frame.f_lasti != trace.tb_lasti


class Interrupts:
    """Interrupts one run at a time.

    Args:
        user_namespace: the globals of the user's code, by which its frames are known.
    """

    def __init__(self, user_namespace: dict[str, Any]) -> None:
        self._user_namespace = user_namespace
        self._lock = threading.Lock()
        self._armed: str | None = None
        # The run in whose code it was raised last.
        self.raised: str | None = None
        self._reasons: dict[str, str] = {}
        self._ended: deque[str] = deque(maxlen=64)
        # The cell's task while it awaits: an exception raised in the event loop itself would end the engine.
        self.task: asyncio.Task[Any] | None = None
        # Runs to interrupt. Safe to put into from code that interrupts any other, unlike all else with a lock.
        self._due: SimpleQueue[str] = SimpleQueue()
        # How often the main thread has handled a signal.
        self._handled = 0
        threading.Thread(target=self._insist, name="jupyter_ddl interrupts", daemon=True).start()
        patch(sys, "unraisablehook", self._on_unraisable, Layer.RANK)

    def arm(self, run: str, grace_s: float = 0.0) -> None:
        """Let releases of `run` interrupt from here on.

        Args:
            run: what is released.
            grace_s: how long what follows has where it was released before.

        Raises:
            KeyboardInterrupt: it was, and what follows has no time.
        """
        signal.signal(_SIGINT, self._on_sigint)
        # An earlier cell may have blocked it; signals sent since then belong to no run.
        pthread_sigmask(signal.SIG_UNBLOCK, {_SIGINT})
        with self._lock:
            self._armed = run
            early = run in self._reasons
        if early and not (grace_s and self._interrupt_later(grace_s, run)):
            raise KeyboardInterrupt

    @property
    def armed(self) -> str | None:
        """The run that a release interrupts now; None where nothing may be interrupted."""
        return self._armed

    def disarm(self) -> None:
        """Allow no more interrupts. Safe to call twice."""
        self._armed = None

    def is_requested(self, run: str) -> bool:
        """Return whether `run` was released."""
        with self._lock:
            return run in self._reasons

    def end(self, run: str) -> str | None:
        """Forget `run`; return why it was released, or None."""
        with self._lock:
            self._ended.append(run)
            return self._reasons.pop(run, None)

    def request(self, run: str, reason: str) -> bool:
        """Interrupt `run`, now or as soon as it begins; return False, and do nothing, where it has ended."""
        with self._lock:
            if not run or run in self._ended:
                return False
            self._reasons.setdefault(run, reason)
            if self._armed == run:
                self._due.put(run)
        return True

    def _on_sigint(self, _signum: int, frame: FrameType | None) -> None:
        debugger = what_pydevd_does(frame, self._user_namespace)
        if debugger == "evaluates":
            # It ends what is evaluated: pydevd answers with it, and the cell is to be interrupted still.
            raise KeyboardInterrupt
        if debugger == "works":
            # It is signalled again.
            return
        # Between two bytecodes of the main thread, which is also where `disarm` runs: never after it.
        self._handled += 1
        if self._armed is None:
            return
        self.raised = self._armed
        if self.task is not None and not self._in_cell(frame):
            self.task.get_loop().call_soon_threadsafe(self.task.cancel)
            return
        raise Interrupt(partial(self._due.put, self._armed))

    def _on_unraisable(self, stock: Callable[[Any], None], unraisable: Any) -> None:
        """Interrupt once more where Python dropped our KeyboardInterrupt: it came inside a `__del__` or a callback.

        TensorFlow's eager executor has a `__del__` that runs in every step of a loop over a tf.data.Dataset.
        Source: tensorflow 2.21, python/eager/executor.py
        """
        armed = self._armed
        if armed is not None and issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._due.put(armed)
        else:
            stock(unraisable)

    def _insist(self) -> None:
        """Interrupt the main thread, and again each time that it has dropped one.

        Here and not where that is noticed: there the signal would be handled at once, and dropped again.
        """
        while True:
            self._interrupt(self._due.get())

    def _interrupt_later(self, seconds: float, run: str) -> bool:
        """Interrupt `run` later; return False where no thread can be started for that."""
        timer = threading.Timer(seconds, self._due.put, (run,))
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:
            return False
        return True

    def _interrupt(self, run: str) -> None:
        """Signal the main thread until it has handled one, or the run is over.

        A signal that comes between the last look for signals and the call that then waits ends no call: who asks for
        the interrupt gets Python's lock just there, where the main thread gives it up in order to wait.
        """
        before = self._handled
        pause_s = _FIRST_PAUSE_S
        while True:
            with self._lock:
                if self._armed != run or self._handled != before:
                    return
                _signal_main_thread()
            sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _in_cell(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_globals is self._user_namespace:
                return True
            frame = frame.f_back
        return False


def _signal_main_thread() -> None:
    # To that thread itself, so that a system call which blocks it (a sleep, a read) ends too.
    pthread_kill(_MAIN, _SIGINT)
