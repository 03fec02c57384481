"""Runs debugpy's pydevd in this process, connected to us by a socket pair.

`debugpy.listen` would start a process that listens on a port of 127.0.0.1 and asks a client for nothing: any user of
the host could connect, and run code as this one. pydevd itself speaks the same protocol (DAP) on any socket.

Source: debugpy 1.8.22, server/api.py (listen), _vendored/pydevd/pydevd.py (_locked_settrace, PyDB.initialize_network)

Runs on: every rank. `tracing` is entered in the main thread, all else in the debugger's own thread.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_VARIABLES = {
    # Python's own modules are of no interest here, and the warning would stand in the rank's output.
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    # Tracing by sys.settrace is of the thread that asks for it; sys.monitoring's is of all threads of the process.
    "PYDEVD_USE_SYS_MONITORING": "0",
}
_FOLDER = f"debugpy{os.sep}_vendored{os.sep}pydevd{os.sep}"
# Source: debugpy 1.8.22, pydevd.py, PyDB._do_wait_suspend
_WAIT = "_do_wait_suspend"


@contextmanager
def settings_of_pydevd() -> Iterator[None]:
    """Have pydevd, where it is imported in the block, read our settings: it reads variables, and then only."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(_VARIABLES)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class PydevdLink:
    """pydevd in this process; one for the process's life.

    Raises:
        ImportError: debugpy is not installed, or is of a version that has no such pydevd.
    """

    def __init__(self) -> None:
        with settings_of_pydevd():
            # Puts pydevd's modules on the path.
            import_module("debugpy.server")
        pydevd = import_module("pydevd")
        constants = import_module("_pydevd_bundle.pydevd_constants")
        constants.set_protocol(constants.HTTP_JSON_PROTOCOL)
        self._socket, theirs = socket.socketpair()
        self._unread = b""
        self._seq = 0
        self._tracer = pydevd.PyDB()
        import_module("_pydevd_bundle.pydevd_vm_type").setup_type()
        # What `settrace` writes there; pydevd reads it where a process forks, and where it looks for its parent.
        pydevd.SetupHolder.setup = {
            "client": "",
            "server": False,
            "port": 0,
            "multiprocess": False,
            "skip-notify-stdin": True,
            constants.ARGUMENT_PPID: 0,
        }
        self._tracer.initialize_network(theirs, terminate_on_socket_close=False)
        self._tracer.ready_to_run = True
        self._tracer.start_auxiliary_daemon_threads()
        # A child has none of the threads that answer here: at a breakpoint it would wait for ever.
        os.register_at_fork(after_in_child=_trace_no_more)

    def fileno(self) -> int:
        """Return what to wait on for messages."""
        return self._socket.fileno()

    def send(self, command: str, arguments: dict[str, Any]) -> int:
        """Send a request; return the number that its answer has as `request_seq`."""
        self._seq += 1
        message = {"type": "request", "seq": self._seq, "command": command, "arguments": arguments}
        content = json.dumps(message).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(content), content))
        return self._seq

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that have come; waits where none has."""
        self._unread += self._socket.recv(1 << 16)
        while True:
            head, found, rest = self._unread.partition(b"\r\n\r\n")
            size = int(head.rpartition(b":")[2]) if found else 0
            if not found or len(rest) < size:
                return
            self._unread = rest[size:]
            yield json.loads(rest[:size])

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Let breakpoints hold this thread in the block."""
        self._tracer.enable_tracing()
        try:
            yield
        finally:
            self._tracer.disable_tracing()


def what_pydevd_does(
    frame: FrameType | None, user_namespace: dict[str, Any]
) -> Literal["nothing", "waits", "works", "evaluates"]:
    """Return what pydevd does in a thread.

    Args:
        frame: where the thread is.
        user_namespace: the globals of the user's code.

    Returns:
        "waits" for a request, at a breakpoint: an exception that is raised there ends the user's code as if that had
        raised it. "works": an exception would be lost, or leave something half done. "evaluates" an expression of the
        user's. Else "nothing".
    """
    caller = frame
    while caller is not None and caller.f_code.co_filename == threading.__file__:
        caller = caller.f_back
    if caller is not None and caller.f_code.co_name == _WAIT and _FOLDER in caller.f_code.co_filename:
        return "waits"
    is_users = False
    while frame is not None:
        if _FOLDER in frame.f_code.co_filename:
            return "evaluates" if is_users else "works"
        is_users |= frame.f_globals is user_namespace
        frame = frame.f_back
    return "nothing"


def _trace_no_more() -> None:
    sys.settrace(None)
    threading.settrace(None)
