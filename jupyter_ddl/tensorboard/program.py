"""Serves one folder of logs by TensorBoard, on a socket that listens already, until the Jupyter server ends.

    python -m jupyter_ddl.tensorboard.program --socket FD --parent PID --logs FOLDER [--run FOLDER]

With `--run` it first writes the run's scalars to the folder of logs, and follows the run. TensorBoard runs without
TensorFlow, which it would import where it finds it: with it TensorBoard starts in 8.4 s and takes 691 MB, without it in
1.3 s, and 69 MB (measured on two busy cores with TensorBoard 2.21).

Its own data server, which is faster for large folders, listens on a port that every user of the machine can connect to:
it is off.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from jupyter_ddl.host.process_tree import end_with_parent
from jupyter_ddl.tensorboard.run_scalars import RunScalars

# TensorBoard looks for new data as often.
_INTERVAL_S = 5
# Of a run's scalars as many are written before TensorBoard first reads them as this takes: most runs' all.
_FIRST_S = 5.0


def main(argv: list[str] | None = None) -> int:
    """Serve; return only where the parent has ended already."""
    parser = argparse.ArgumentParser(prog="jupyter_ddl.tensorboard.program")
    parser.add_argument("--socket", type=int, required=True, help="the number of the descriptor")
    parser.add_argument("--parent", type=int, required=True, help="the process that it ends with")
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--run", type=Path)
    arguments = parser.parse_args(argv)
    end_with_parent(signal.SIGKILL)
    if os.getppid() != arguments.parent:
        # It ended before Linux was asked.
        return 1
    os.umask(0o077)
    scalars = None if arguments.run is None else RunScalars(arguments.run, arguments.logs)
    _write_on(scalars, until_s=time.monotonic() + _FIRST_S)
    _launch(arguments.socket, arguments.logs)
    while scalars is not None and not scalars.is_over:
        _write_on(scalars)
        time.sleep(1)
    threading.Event().wait()
    return 0


def _write_on(scalars: RunScalars | None, until_s: float | None = None) -> None:
    while scalars is not None and (until_s is None or time.monotonic() < until_s) and scalars.write_on():
        pass


def _launch(descriptor: int, logs: Path) -> None:
    # Source: tensorboard/compat/__init__.py, which takes its own stand-in for TensorFlow where this module is.
    sys.modules["tensorboard.compat.notf"] = ModuleType("tensorboard.compat.notf")
    from tensorboard import default, program

    board = program.TensorBoard(plugins=default.get_plugins(), server_class=partial(_OnSocket, descriptor))
    options = {"--logdir": str(logs), "--load_fast": "false", "--reload_interval": str(_INTERVAL_S)}
    board.configure(argv=["tensorboard", *(part for option in options.items() for part in option)])
    # And not `main`, which writes a file for other users to find it by.
    board.launch()


class _OnSocket:
    """Serves TensorBoard's application on a unix socket, as `tensorboard.program.TensorBoardServer` does on a port.

    Args:
        descriptor: the socket's, which listens.
        app: the application.
        flags: TensorBoard's.
    """

    def __init__(self, descriptor: int, app: Any, flags: Any) -> None:  # noqa: ARG002  TensorBoard's signature
        from werkzeug import serving

        class Handler(serving.WSGIRequestHandler):
            # A connection has one answer, whose end is its end: no chunks.
            protocol_version = "HTTP/1.0"

            def log_request(self, *_: object) -> None:
                """Write nothing: the Jupyter server logs requests."""

        self._server = serving.make_server(
            "unix://board", 0, app, threaded=True, request_handler=Handler, fd=descriptor
        )

    def serve_forever(self) -> None:
        """Serve requests."""
        self._server.serve_forever()

    def get_url(self) -> str:
        """Return nothing: no address leads here."""
        return ""


if __name__ == "__main__":
    sys.exit(main())
