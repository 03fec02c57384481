"""A real Jupyter server with the hub, and a browser's WebSocket."""

from __future__ import annotations

import json
import secrets
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import servers
import websocket
from batches import read
from servers import TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from servers import Reply

HUB = "--ServerApp.jpserver_extensions={'jupyter_ddl.server': True}"
KERNEL = ("-m", "ipykernel_launcher", "-f", "{connection_file}", "--IPKernelApp.parent_handle=0")


class Server(servers.Server):
    """A Jupyter server with the hub."""

    def __init__(
        self, folder: Path, *options: str, base_url: str = "/", variables: Mapping[str, str] | None = None
    ) -> None:
        # One whose kernel does not end with the server, as where a batch system or a gateway started it.
        spec = {"argv": [sys.executable, *KERNEL], "display_name": "lasting", "language": "python"}
        (folder / "data" / "kernels" / "lasting").mkdir(parents=True)
        (folder / "data" / "kernels" / "lasting" / "kernel.json").write_text(json.dumps(spec))
        super().__init__(folder, HUB, *options, base_url=base_url, variables=variables)

    def ask(
        self, method: str, path: str, *, token: str | None = TOKEN, body: str | None = None, **headers: str
    ) -> Reply:
        """Send a request under jupyter-ddl/ exactly as it is written here."""
        return self.request(method, f"{self.base_url}jupyter-ddl/{path}", token=token, body=body, **headers)

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
            self.batches.append((json.loads(head)["run"], read(body)))
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
