"""Numbers a rank's events, writes them to the run's folder, and sends them, in this order.

Whatever was sent is on disk, so a kernel that attaches later finds there what it has missed.

Runs on: every rank.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.events import OutputChunk, RankFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.engine.host_folder import HostFolder
    from jupyter_ddl.host.run_files import RunFiles
    from jupyter_ddl.protocol.codec import Wire
    from jupyter_ddl.protocol.events import Event


class Journal:
    """Takes this rank's events, from any thread.

    Args:
        rank: this rank.
        send: publishes an event.
        files: where the run's events are kept.
        host_folder: of this host, where it shares no runs' folder with the kernel's; None otherwise.
    """

    def __init__(
        self, rank: int, send: Callable[[Wire], None], files: RunFiles, host_folder: HostFolder | None = None
    ) -> None:
        self._rank = rank
        self._send = send
        self._files = files
        self._host_folder = host_folder
        files.tell = self._tell
        # Reentrant: a full disk is reported in an event.
        self._lock = threading.RLock()
        self._run = ""
        self._count = 0
        self._listeners: list[Callable[[str | None], None]] = []

    def when_begun(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener` with the folder of each run that begins."""
        self._listeners.append(listener)

    def begin(self, run: str, folder: str | None) -> None:
        """Number the events of `run` from 1, and keep them in its folder."""
        with self._lock:
            self._run, self._count = run, 0
            if folder is not None and self._host_folder is not None:
                folder = self._host_folder.of_run(folder)
            self._files.begin(folder)
            for listener in self._listeners:
                listener(folder)

    def __call__(self, event: Event) -> None:
        """Keep and send an event. Events that one thread sends arrive in the order in which it sent them."""
        with self._lock:
            of_run: Any = event
            if isinstance(event, RankFailed):
                # Before the event, at which others read the log.
                self._files.write_failure(event)
            if getattr(event, "run", None) == self._run:
                self._count = number = self._count + 1
                event = replace(of_run, n=number)
                self._files.write_event(as_line(event))
                if self._count != number:
                    # A full disk was reported meanwhile, in an event of its own: a lower number is a repetition.
                    self._count += 1
                    event = replace(of_run, n=self._count)
            self._send(event)

    def announce(self, message: Wire) -> None:
        """Send at once what belongs to no record."""
        self._send(message)

    def _tell(self, text: str) -> None:
        """Report trouble with the files in the run's own output."""
        self(OutputChunk(self._run, self._rank, "stderr", text))
