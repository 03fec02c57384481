"""A real Jupyter server with the hub, its kernels, and a browser's WebSocket."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import websocket
from kernels import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKEN = "hub-tests"
ARGUMENTS = (
    *("-m", "jupyter_server", "--no-browser", "--allow-root", "--port-retries=0", "--ip=127.0.0.1"),
    f"--IdentityProvider.token={TOKEN}",
    "--ServerApp.jpserver_extensions={'jupyter_ddl.server': True}",
)
KERNEL = ("-m", "ipykernel_launcher", "-f", "{connection_file}", "--IPKernelApp.parent_handle=0")


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
    """A Jupyter server on a port of its own, which it has again when it is started again."""

    def __init__(
        self, folder: Path, *arguments: str, base_url: str = "/", environment: dict[str, str] | None = None
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.base_url = base_url
        self._folder = folder
        self._arguments = (*ARGUMENTS, f"--port={self.port}", f"--ServerApp.base_url={base_url}", *arguments)
        self._environment = (environment or dict(os.environ)) | {
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "IPYTHONDIR": str(folder / "ipython"),
        }
        # One whose kernel does not end with the server, as where a batch system or a gateway started it.
        spec = {"argv": [sys.executable, *KERNEL], "display_name": "lasting", "language": "python"}
        (folder / "data" / "kernels" / "lasting").mkdir(parents=True)
        (folder / "data" / "kernels" / "lasting" / "kernel.json").write_text(json.dumps(spec))
        self._log = (folder / "server.log").open("a")
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *self._arguments],
            env=self._environment,
            cwd=self._folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        assert eventually(self._is_up, 60), (self._folder / "server.log").read_text()

    def kill(self) -> None:
        """End the server as SIGKILL does: its kernels live on."""
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._log.close()

    def ask(self, method: str, path: str, *, token: str | None = TOKEN, **headers: str) -> Reply:
        """Send a request under jupyter-ddl/ exactly as it is written here."""
        return self.request(method, f"{self.base_url}jupyter-ddl/{path}", token=token, **headers)

    def request(
        self, method: str, path: str, *, token: str | None = TOKEN, body: str | None = None, **headers: str
    ) -> Reply:
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

    def live(self, *, token: str = TOKEN, origin: str | None = None) -> websocket.WebSocket:
        return websocket.create_connection(
            f"ws://127.0.0.1:{self.port}{self.base_url}jupyter-ddl/live?token={token}",
            timeout=30,
            origin=origin or f"http://127.0.0.1:{self.port}",
        )

    @contextmanager
    def browser(self) -> Iterator[Browser]:
        browser = Browser(self.live())
        try:
            yield browser
        finally:
            browser.socket.close()
            # What the server ended, its library does not close.
            browser.socket.shutdown()

    def _is_up(self) -> bool:
        try:
            return self.request("GET", f"{self.base_url}api/status").status == 200
        except OSError:
            assert self.process.poll() is None, (self._folder / "server.log").read_text()
            return False


@dataclass
class Browser:
    """A WebSocket, and what has come over it: messages, and the batches of runs."""

    socket: websocket.WebSocket
    messages: list[dict[str, Any]] = field(default_factory=list)
    batches: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def take(self) -> None:
        """Take one frame."""
        opcode, data = self.socket.recv_data()
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            raise ConnectionError(int.from_bytes(data[:2], "big"), data[2:].decode())
        if opcode == websocket.ABNF.OPCODE_BINARY:
            head, _, body = data.partition(b"\n")
            self.batches.append((json.loads(head)["run"], json.loads(body)))
        else:
            self.messages.append(json.loads(data))

    def until(self, found: Callable[[], Any], timeout_s: float = 30) -> Any:
        """Take frames until something is found; return it."""
        deadline_s = time.monotonic() + timeout_s
        while not (value := found()):
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"not within {timeout_s} s: {self.messages[-5:]}"
            self.socket.settimeout(left_s)
            self.take()
        return value

    def newest(self, kind: str, **wanted: Any) -> dict[str, Any] | None:
        """Return the newest message of a type whose fields are these."""
        for message in reversed(self.messages):
            if message["type"] == kind and all(message[name] == value for name, value in wanted.items()):
                return message
        return None

    def wait_for(self, kind: str, timeout_s: float = 30, **wanted: Any) -> dict[str, Any]:
        message: dict[str, Any] = self.until(lambda: self.newest(kind, **wanted), timeout_s)
        return message

    def wait_for_cluster(self, kernel: str, state: str, timeout_s: float = 30) -> dict[str, Any]:
        """Wait until the newest that a kernel said of its ranks is that they are in a state; return the message."""

        def found() -> dict[str, Any] | None:
            newest = self.newest("kernel_state", kernel=kernel)
            return newest if newest and newest["cluster"] and newest["cluster"]["state"] == state else None

        message: dict[str, Any] = self.until(found, timeout_s)
        return message

    def control(self, kernel: str, do: str, timeout_s: float = 30, **arguments: Any) -> dict[str, Any]:
        """Ask a kernel for something; return the answer."""
        number = secrets.token_hex(4)
        self.send(type="control", id=number, kernel=kernel, do=do, arguments=arguments)
        return self.wait_for("answer", timeout_s, id=number)


class Notebook:
    """A kernel that the server started, and its channels as JupyterLab uses them."""

    def __init__(self, server: Server, name: str = "python3") -> None:
        self._server = server
        body = json.dumps({"name": name})
        self.id: str = server.request("POST", f"{server.base_url}api/kernels", body=body).json["id"]
        address = f"ws://127.0.0.1:{server.port}{server.base_url}api/kernels/{self.id}/channels"
        self._socket = websocket.create_connection(f"{address}?token={TOKEN}", timeout=60)

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
        """Wait until code that goes on has printed a text."""
        while text not in self._next(number, timeout_s)["content"].get("text", ""):
            pass

    def wait(self, number: str, timeout_s: float = 60) -> tuple[str, str]:
        """Wait until code has ended; return what it printed from here on, and its error."""
        printed = error = ""
        deadline_s = time.monotonic() + timeout_s
        while True:
            message = self._next(number, deadline_s - time.monotonic())
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed += content["text"]
            elif kind in ("display_data", "execute_result", "update_display_data"):
                printed += content["data"].get("text/plain", "")
            elif kind == "error":
                error = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return printed, error

    def _next(self, number: str, timeout_s: float) -> dict[str, Any]:
        """Return the next message that code caused."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._socket.settimeout(max(0.1, deadline_s - time.monotonic()))
            message: dict[str, Any] = json.loads(self._socket.recv())
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
        self._server.request("DELETE", f"{self._server.base_url}api/kernels/{self.id}")
