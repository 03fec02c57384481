"""A real Jupyter server, with folders of its own and a token, and what a browser's tab does with it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import websocket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

TOKEN = "tests"
UP_S = 60.0


class Server:
    """A running Jupyter server.

    Attributes:
        url: with no slash at its end.
        process: it.
    """

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process

    def api(self, method: str, path: str, content: Any = None) -> Any:
        """Call Jupyter's own REST interface."""
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}/api/{path}", data, method=method)
        request.add_header("Authorization", f"token {TOKEN}")
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def start_kernel(self) -> str:
        """Start a kernel; return its id."""
        return str(self.api("POST", "kernels", {"name": "python3"})["id"])

    def end_kernels(self) -> None:
        """End every kernel, and wait until they have."""
        for kernel in self.api("GET", "kernels"):
            self.api("DELETE", f"kernels/{kernel['id']}")


class Tab:
    """A browser's connection to a kernel's channels; a context manager, left as a closed tab leaves it."""

    def __init__(self, server: Server, kernel: str) -> None:
        url = server.url.replace("http", "ws", 1)
        headers = {"Authorization": f"token {TOKEN}"}
        self._socket = websocket.create_connection(f"{url}/api/kernels/{kernel}/channels", header=headers, timeout=UP_S)

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, code: str) -> str:
        """Have the kernel execute code; return the message's id."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "username": "",
            "session": uuid.uuid4().hex,
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self._socket.send(json.dumps(message))
        return header["msg_id"]

    def wait(self, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first message for which something holds. Its socket's timeout is the deadline of each."""
        while True:
            message: dict[str, Any] = json.loads(self._socket.recv())
            if until(message):
                return message

    def execute(self, code: str) -> dict[str, Any]:
        """Have code executed; return the reply's content."""
        sent = self.send(code)
        reply = self.wait(
            lambda message: message["msg_type"] == "execute_reply" and message["parent_header"]["msg_id"] == sent
        )
        content: dict[str, Any] = reply["content"]
        return content


@contextmanager
def jupyter_server(
    folder: Path,
    module: str = "jupyter_server",
    *options: str,
    variables: Mapping[str, str] | None = None,
    base_url: str = "/",
) -> Iterator[Server]:
    """Run a server whose notebooks are in folder/notebooks.

    Args:
        folder: also of its configuration, data and sockets.
        module: the server's program: jupyter_server, jupyterlab or notebook.
        options: of its command line.
        variables: of its environment, and so of its kernels'.
        base_url: below which it serves.
    """
    notebooks = folder / "notebooks"
    notebooks.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
    }
    log = folder / "server.log"
    argv = [
        *(sys.executable, "-m", module, "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        f"--ServerApp.base_url={base_url}",
        *("--port-retries=0", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={notebooks}", *options),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(
            argv, env=environment | dict(variables or {}), cwd=notebooks, stdout=output, stderr=subprocess.STDOUT
        )
    server = Server(f"http://127.0.0.1:{port}{base_url.rstrip('/')}", process)
    try:
        _wait_until_up(server, log)
        yield server
        if process.poll() is None:
            server.end_kernels()
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_up(server: Server, log: Path) -> None:
    until_s = time.monotonic() + UP_S
    while True:
        try:
            server.api("GET", "status")
        except OSError:
            if server.process.poll() is not None or time.monotonic() > until_s:
                raise AssertionError(f"The Jupyter server must come up.\n{log.read_text()}") from None
            time.sleep(0.2)
        else:
            return
