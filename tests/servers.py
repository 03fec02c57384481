"""A real Jupyter server, with folders and a port of its own, its kernels, and what a browser's tab does with them."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import websocket

from jupyter_ddl.host.held_ports import HeldPorts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from typing_extensions import Self

TOKEN = "tests"
UP_S = 60.0
_TOLD_CHARACTERS = 4000
# Longer than a kernel takes to start, on a busy machine too.
_STARTED_S = 60.0


@dataclass
class Reply:
    """What the server answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """A Jupyter server on a port of its own, which it has again when it is started again. A context manager.

    Attributes:
        token: the one that it takes.

    Args:
        folder: its configuration, data and sockets; folder/notebooks has its notebooks.
        options: of its command line.
        module: the server's program: jupyter_server, jupyterlab or notebook.
        variables: of its environment, and so of its kernels'.
        base_url: below which it serves, with slashes around it.
    """

    token = TOKEN

    def __init__(
        self,
        folder: Path,
        *options: str,
        module: str = "jupyter_server",
        variables: Mapping[str, str] | None = None,
        base_url: str = "/",
    ) -> None:
        # Jupyter itself chooses a free port, releases it, and listens there later, when another process may have it.
        self._ports = HeldPorts()
        self.port = self._ports.add()
        self.base_url = base_url
        self.url = f"http://127.0.0.1:{self.port}{base_url.rstrip('/')}"
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir(exist_ok=True)
        self._argv = [
            *(sys.executable, "-m", module, "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={self.port}"),
            *("--port-retries=0", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.base_url={base_url}"),
            *(f"--ServerApp.root_dir={self.notebooks}", *options),
        ]
        own = {
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "IPYTHONDIR": str(folder / "ipython"),
        }
        self._environment = os.environ | own | dict(variables or {})
        self._log = folder / "server.log"
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end_kernels()
        self.stop()
        self._ports.close()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                self._argv, env=self._environment, cwd=self.notebooks, stdout=log, stderr=subprocess.STDOUT
            )
        until_s = time.monotonic() + UP_S
        while not self._is_up():
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < until_s, self._log.read_text()
            time.sleep(0.1)

    def last_words(self) -> str:
        """Return what it wrote last."""
        return self._log.read_text()[-_TOLD_CHARACTERS:]

    def told(self) -> str | None:
        """Return whether it runs and what it wrote last; None where its fixture has ended it and removed its folder."""
        if not self._log.exists():
            return None
        status = self.process.poll()
        return f"{'runs' if status is None else f'ended with status {status}'}\n{self.last_words()}"

    def kill(self) -> None:
        """End it as SIGKILL does."""
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> None:
        """End it as a user does; by force where Jupyter's own shutdown hangs, as it does while a kernel starts."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def request(
        self, method: str, path: str, *, token: str | None = TOKEN, body: str | None = None, **headers: str
    ) -> Reply:
        """Send a request with a path exactly as it is written here."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given["Authorization"] = f"token {token}"
        try:
            connection.request(method, path, body=body, headers=given)
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def api(self, method: str, path: str, content: Any = None) -> Any:
        """Call Jupyter's own REST interface; return what it answers."""
        body = None if content is None else json.dumps(content)
        reply = self.request(method, f"{self.base_url}api/{path}", body=body)
        assert reply.status < 400, (method, path, reply)
        return reply.json if reply.body else None

    def end_kernels(self) -> None:
        """End every kernel, and wait until they have."""
        for kernel in self._kernels():
            self.api("DELETE", f"kernels/{kernel['id']}")

    def interrupt_kernels(self) -> None:
        """Interrupt every kernel; what one that runs no code does then is nothing."""
        for kernel in self._kernels():
            self.api("POST", f"kernels/{kernel['id']}/interrupt")

    def _kernels(self) -> list[dict[str, Any]]:
        """Return the kernels that run.

        While one is being started the server cannot list them, and answers 500: that one has no time of its last
        activity yet. Source: jupyter_server 2.21, kernelmanager.py, kernel_model and _async_start_kernel
        """
        until_s = time.monotonic() + _STARTED_S
        while (reply := self.request("GET", f"{self.base_url}api/kernels")).status == HTTPStatus.INTERNAL_SERVER_ERROR:
            assert time.monotonic() < until_s, reply
            time.sleep(0.05)
        assert reply.status == HTTPStatus.OK, reply
        found: list[dict[str, Any]] = reply.json
        return found

    def _is_up(self) -> bool:
        try:
            return self.request("GET", f"{self.base_url}api/status").status == 200
        except OSError:
            return False


class Notebook:
    """A kernel of the server's, and its channels as a browser uses them; a context manager, left as a closed tab.

    Args:
        server: whose kernel.
        name: the kernelspec of a new one.
        kernel: the id of one that runs already.
    """

    def __init__(self, server: Server, name: str = "python3", kernel: str | None = None) -> None:
        self._server = server
        self.id: str = kernel or server.api("POST", "kernels", {"name": name})["id"]
        address = f"ws://127.0.0.1:{server.port}{server.base_url}api/kernels/{self.id}/channels"
        self._socket = websocket.create_connection(
            address, timeout=UP_S, header=[f"Authorization: token {server.token}"]
        )

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, code: str, cell_id: str | None = None) -> str:
        """Execute code without waiting; return the message's id."""
        number = secrets.token_hex(8)
        header = {"msg_id": number, "msg_type": "execute_request", "session": "s", "username": "u", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False}
        metadata = {} if cell_id is None else {"cellId": cell_id}
        message = {"header": header, "parent_header": {}, "metadata": metadata, "content": content, "buffers": []}
        self._socket.send(json.dumps(message | {"channel": "shell"}))
        return number

    def wait_for_text(self, number: str, text: str, timeout_s: float = 60) -> None:
        """Wait until code that goes on has printed or shown a text."""
        while text not in _shown(self._next(number, timeout_s)):
            pass

    def wait(self, number: str, timeout_s: float = 60) -> tuple[str, str]:
        """Wait until code has ended; return what it printed from here on, and its error."""
        printed = error = ""
        deadline_s = time.monotonic() + timeout_s
        while True:
            message = self._next(number, deadline_s - time.monotonic())
            kind, content = message["msg_type"], message["content"]
            printed += _shown(message)
            if kind == "error":
                error = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return printed, error

    def _next(self, number: str, timeout_s: float) -> dict[str, Any]:
        """Return the next message that code caused."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._socket.settimeout(max(0.1, deadline_s - time.monotonic()))
            message = _message(self._socket.recv())
            if message["parent_header"].get("msg_id") == number:
                return message

    def do(self, code: str, timeout_s: float = 60, cell_id: str | None = None) -> str:
        """Execute code to its end; return what it printed."""
        printed, error = self.wait(self.send(code, cell_id), timeout_s)
        assert not error, error
        return printed

    def close(self) -> None:
        self._socket.close()
        self._socket.shutdown()

    def delete(self) -> None:
        self.close()
        self._server.api("DELETE", f"kernels/{self.id}")


def _message(data: str | bytes) -> dict[str, Any]:
    """Return a message, of one with buffers what stands before them.

    Source: jupyter_server 2.21, services/kernels/connection/base.py, serialize_binary_message
    """
    if isinstance(data, bytes):
        begin, end = (int.from_bytes(data[at : at + 4], "big") for at in (4, 8))
        data = data[begin:end]
    message: dict[str, Any] = json.loads(data)
    return message


def _shown(message: dict[str, Any]) -> str:
    """Return the text that a message puts under a cell."""
    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        return str(content["text"])
    if kind in ("display_data", "execute_result", "update_display_data"):
        return str(content["data"].get("text/plain", ""))
    return ""
