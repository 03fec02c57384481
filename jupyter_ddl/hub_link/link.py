"""The socket to the hub and its two threads: one takes controls, one tells what has changed.

Whoever tells of a change only sets a flag. A hub that is gone is tried again once a second: its server may be started
again.

Runs on: kernel.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_ddl.hub_messages import from_hub
from jupyter_ddl.wire import as_line

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.hub_link.controls import Controls
    from jupyter_ddl.hub_link.state import State
    from jupyter_ddl.hub_messages import Answer, KernelState, RunNotice
    from jupyter_ddl.runs.run import Run

RETRY_S = 1.0
INTERVAL_S = 0.25
MAX_NOTICES = 256
MAX_LINE_BYTES = 2 << 20
# A hub that takes nothing for so long is let go of.
_SEND_S = 10


class Link:
    """One kernel's link.

    Args:
        path: the hub's socket.
        state: says what is told.
        controls: does what is asked.
    """

    def __init__(self, path: Path, state: State, controls: Controls) -> None:
        self._path = path
        self._state = state
        self._controls = controls
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._notices: deque[RunNotice] = deque(maxlen=MAX_NOTICES)
        self._told: KernelState | None = None

    def start(self) -> None:
        """Connect, and stay connected for as long as this process lives."""
        for work, name in ((self._listen, "jupyter_ddl hub controls"), (self._tell, "jupyter_ddl hub state")):
            threading.Thread(target=work, name=name, daemon=True).start()

    def note(self, run: Run | None) -> None:
        """Note that something has changed; a listener of `changes`."""
        if run is not None:
            self._notices.append(self._state.note(run))
        self._changed.set()

    def _listen(self) -> None:
        while True:
            # There is no hub, it was ended, it speaks another language, or this process can open no more files.
            with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as channel:
                try:
                    channel.connect(str(self._path))
                    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_S, 0))
                    self._take_controls(channel)
                finally:
                    with self._lock:
                        self._socket = None
            time.sleep(RETRY_S)

    def _take_controls(self, channel: socket.socket) -> None:
        with self._lock:
            self._socket, self._told = channel, None
        self._changed.set()
        with channel.makefile("rb") as lines:
            while line := lines.readline(MAX_LINE_BYTES):
                self._controls.take(from_hub(line), self._send)

    def _tell(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._socket is None:
                # Told once it is there, as it is then.
                continue
            state = self._state.now()
            # First the kernel, of which the notices are.
            if state != self._told:
                self._told = state
                self._send(state)
            while self._notices and self._socket is not None:
                self._send(self._notices.popleft())
            time.sleep(INTERVAL_S)

    def _send(self, message: KernelState | RunNotice | Answer) -> None:
        with self._lock:
            if self._socket is None:
                return
            try:
                self._socket.sendall(as_line(message))
            except OSError:
                # It was ended, or takes nothing: the thread that reads wakes up, and connects again.
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._socket = None
