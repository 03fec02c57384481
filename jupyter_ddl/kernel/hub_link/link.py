"""Connects to the hub's socket, with two threads: one takes controls, one sends what has changed.

A thread that notes a change only sets a flag. Where the hub is gone, the link tries again once a second: its server may
be started again.

Runs on: kernel.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_ddl.host.threads import ErrorsOnce, Supervised
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.hub_messages import from_hub

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.hub_link.controls import Controls
    from jupyter_ddl.kernel.hub_link.state import State
    from jupyter_ddl.protocol.hub_messages import Answer, KernelState, RunNotice
    from jupyter_ddl.runs.run import Run

RETRY_S = 1.0
INTERVAL_S = 0.25
MAX_NOTICES = 256
MAX_LINE_BYTES = 2 << 20
_CREDENTIALS = struct.Struct("3i")
# A hub that reads nothing for so long is disconnected.
_SEND_S = 10


class Link:
    """One kernel's link.

    Args:
        path: the hub's socket.
        state: makes what is sent.
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
        self._errors = ErrorsOnce()
        # A run's end gives a notice, and changes the state: a state is read before both or after both.
        self._noting = threading.Lock()

    def start(self) -> None:
        """Connect, and stay connected for as long as this process lives."""
        for work, name in ((self._listen, "jupyter_ddl hub controls"), (self._tell, "jupyter_ddl hub state")):
            Supervised(work, name, lambda _: None).start()

    def note(self, run: Run | None) -> None:
        """Note that something has changed; an observer of the kernel's sessions."""
        try:
            if run is not None:
                with self._noting:
                    self._notices.append(self._state.note(run))
        except Exception as error:  # noqa: BLE001  a cell waits for this: the panel misses a notice, and gets the state
            self._errors.tell(error)
        self._changed.set()

    def _listen(self) -> None:
        while True:
            try:
                self._listen_once()
            except (OSError, ValueError):
                # There is no hub, it was ended, it has another protocol, or this process can open no more files.
                pass
            except Exception as error:  # noqa: BLE001  a control's error: the next connection takes the next one
                self._errors.tell(error)
            time.sleep(RETRY_S)

    def _listen_once(self) -> None:
        with socket.socket(socket.AF_UNIX) as channel:
            try:
                # The kernel's user may have set a default for all new sockets.
                channel.settimeout(None)
                channel.connect(str(self._path))
                check_peer(channel)
                channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_S, 0))
                self._take_controls(channel)
            finally:
                with self._lock:
                    self._socket = None

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
                # The next connection is sent the state of then.
                continue
            try:
                self._tell_once()
            except Exception as error:  # noqa: BLE001  a state that cannot be read or sent: the next change is sent again
                self._errors.tell(error)
            time.sleep(INTERVAL_S)

    def _tell_once(self) -> None:
        with self._noting:
            state = self._state.now()
            noted = len(self._notices)
        if self._told is None:
            # A new hub must know the kernel before it gets the kernel's notices.
            self._tell_state(state)
        # Before the state: the hub then knows its fault as a run's, and reports that once.
        while noted > 0 and self._notices and self._socket is not None:
            noted -= 1
            self._send(self._notices.popleft())
        self._tell_state(state)

    def _tell_state(self, state: KernelState) -> None:
        if state != self._told:
            self._told = state
            self._send(state)

    def _send(self, message: KernelState | RunNotice | Answer) -> None:
        with self._lock:
            if self._socket is None:
                return
            line = as_line(message)
            try:
                self._socket.sendall(line)
            except OSError:
                # The hub was ended, or reads nothing: the thread that reads wakes up, and connects again.
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._socket = None


def check_peer(channel: socket.socket) -> None:
    """Check that the hub is this user's: its controls are done, and the values of cells' variables are shown to it.

    Raises:
        PermissionError: another user's process listens there, in a folder that was free when the server had gone.
    """
    peer = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(peer)
    if uid != os.geteuid():
        raise PermissionError(f"A hub must be this user's. Received: one of user {uid}.")
