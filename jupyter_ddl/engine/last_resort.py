"""Reports the end of a cell that has broken this rank's machinery, or ends the rank, so that no session waits for it.

In this order: what the machinery needs is put back; what still fails is reported in the shortest way; and where even
that fails, or no message can reach this rank any more, its process ends, which mpiexec reports.

Runs on: every rank, in the main thread.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
import warnings
from os import write
from threading import Event
from time import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.error_text import bounded, text_of
from jupyter_ddl.engine.pristine_modules import Foundations, Objects, check_functions
from jupyter_ddl.protocol.events import OutputChunk, RankFailed
from jupyter_ddl.protocol.exit_statuses import CANNOT_REPORT, THREAD_ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.engine.capture import Capture
    from jupyter_ddl.engine.event_log import Journal
    from jupyter_ddl.engine.fatal_exit import Leaving
    from jupyter_ddl.engine.world import World

# The sending thread wakes at once; on a busy machine, later.
_SENT_S = 10.0


class LastResort:
    """The last line of defence of one rank.

    Args:
        kernel: ipyparallel's, whose threads and session carry all messages.
        world: this rank's place.
        emit: sends an event.
        capture: what takes in what is printed.
        leaving: ends this process.
    """

    def __init__(self, kernel: Any, world: World, emit: Journal, capture: Capture, leaving: Leaving) -> None:
        self._session = kernel.session
        self._world = world
        self._emit = emit
        self._capture = capture
        self._leaving = leaving
        self._kernel = kernel
        self._foundations = Foundations(self._check)
        self._objects: Objects | None = None
        self._iopub = kernel.iopub_socket

    def begin(self) -> None:
        """Note what the first cell finds."""
        if self._objects is None:
            shell = "kernel", "history_manager", "displayhook", "display_pub", "events", "user_ns", "compile"
            kernel = "session", "shell", "iopub_socket"
            self._objects = Objects([(self._kernel, kernel), (self._kernel.shell, shell)])

    def put_back(self, run: str) -> None:
        """Put back what the cell replaced and a rank needs, and say so in the cell's output."""
        changed = self._foundations.put_back()
        if self._objects is not None:
            changed += self._objects.put_back()
        if changed and not self._leaving.is_child:
            text = f"the cell replaced {', '.join(changed)}, without which a rank can serve no cell: put back."
            self._emit(OutputChunk(run, self._world.rank, "stderr", f"jupyter_ddl: {text}\n"))

    def report(self, run: str, error: BaseException, lines: Sequence[str], abandon: Callable[[], None]) -> None:
        """Report that a cell left the rank no way to end it as it should.

        Args:
            run: the cell's.
            error: what was raised after its own code.
            lines: the traceback of its own exception, where it raised one.
            abandon: ends this rank's collectives.
        """
        try:
            self.end_if_child(error, lines)
            self._foundations.put_back(without_asking=True)
            if self._objects is not None:
                self._objects.put_back()
            message = (
                f"The rank could not end its cell as it should: {text_of(error)}\nWhat the cell printed stands in its "
                f"log; what it replaced or closed in this process may be the cause."
            )
            shown = (*lines, *map(bounded, traceback.format_exception(error)))
            place = run, self._world.rank, self._world.host
            with warnings.catch_warnings():
                # A cell may have turned warnings into errors.
                warnings.simplefilter("ignore")
                abandon()
                self._emit(RankFailed(*place, type(error).__name__, message, shown, released=False, at_s=time()))
        except BaseException as second:  # noqa: BLE001  nothing is left but to end: mpiexec then reports the rank's end
            self._leaving(CANNOT_REPORT, f"{type(error).__name__}, then {type(second).__name__} when it was reported")

    def end_if_child(self, error: BaseException | None, lines: Sequence[str]) -> None:
        """End this process where the cell forked it and it reached the cell's end: its parent, the rank, reports."""
        if not self._leaving.is_child:
            return
        try:
            if error is not None and not isinstance(error, SystemExit):
                text = "\n".join(lines) or "".join(traceback.format_exception(error))
                write(2, text.encode("utf-8", "backslashreplace") + b"\n")
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            self._leaving(0 if error is None else 1)

    def confirm(self, has_left: Event | None) -> None:
        """End this process where its report was not sent, or no message can reach it any more.

        The session would wait for it, now or at the next cell.

        Args:
            has_left: is set when the report has left; None where nothing says so.
        """
        for name, thread in (("control", self._kernel.control_thread), ("iopub", self._iopub.thread)):
            if not thread.is_alive():
                self._leaving(THREAD_ENDED, f"the {name} thread has ended")
        if not self._capture.is_alive:
            self._leaving(THREAD_ENDED, "the thread that takes in what is printed has ended")
        try:
            if has_left is None:
                has_left = Event()
                # After the report in that thread's queue, which stops at what raises.
                self._iopub.schedule(has_left.set)
            is_sent = has_left.wait(_SENT_S)
        except Exception as error:  # noqa: BLE001  a cell has broken what takes events to the socket
            self._leaving(CANNOT_REPORT, f"{type(error).__name__}: {text_of(error)}")
        if not is_sent:
            self._leaving(CANNOT_REPORT, f"the report of a cell's end was not sent within {_SENT_S:g} s")

    def _check(self) -> None:
        """Raise where no message could be sent or read, no thread started, no descriptor used."""
        check_functions()
        asyncio.get_running_loop().time()
        content = {"text": "ä", "number": 1.5}
        message = self._session.serialize(self._session.msg("check", content=content))
        _, parts = self._session.feed_identities(message)
        if self._session.unpack(parts[4]) != content:
            raise RuntimeError("A message must be read as it was sent.")
