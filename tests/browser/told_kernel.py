"""A kernel as the hub sees one, which tells of ranks that it need not have: a panel can be seen with any number."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl import paths

if TYPE_CHECKING:
    from types import TracebackType

    from lab import Lab


class ToldKernel:
    """A connection to the hub of a lab; a context manager."""

    def __init__(self, lab: Lab, kernel: str) -> None:
        self.kernel = kernel
        until_s = time.monotonic() + 20
        # By its port: a server that was killed has left its socket beside this one's.
        while not (found := [path for path in paths.hub_dir().glob(f"*-{lab.server.port}") if path.is_socket()]):
            assert time.monotonic() < until_s, "the hub has no socket"
            time.sleep(0.1)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(found[0]))

    def __enter__(self) -> ToldKernel:
        return self

    def __exit__(self, *_: type[BaseException] | TracebackType | BaseException | None) -> None:
        self._socket.close()

    def tell(
        self,
        ranks: list[dict[str, Any]],
        *,
        state: str = "idle",
        name: str = "default",
        idle_ends_at_s: float | None = None,
        keeps_variables: bool = False,
        **more: Any,
    ) -> None:
        """Say what ranks there are; `fault` is its text."""
        cluster = {
            "name": name,
            "state": state,
            "note": "",
            "step": None,
            "world_size": len(ranks),
            "ranks": ranks,
            "ends_at_s": None,
            "idle_ends_at_s": idle_ends_at_s,
            "keeps_variables": keeps_variables,
            "job": None,
            "held": None,
        }
        message = {"type": "kernel_state", "kernel": self.kernel, "pid": 4700, "cluster": cluster, **_told(more)}
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def answer(self, do: str, result: Any) -> dict[str, Any]:
        """Answer the next control, which must be that one; return its arguments."""
        with self._socket.makefile("rb") as lines:
            asked = json.loads(lines.readline())
        assert asked["do"] == do
        message = {"type": "answer", "id": asked["id"], "result": result, "error": None}
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        arguments: dict[str, Any] = asked["arguments"]
        return arguments

    def notice(self, run: str, state: str = "running", **more: Any) -> None:
        """Say that a run has begun, or has ended."""
        message = {"type": "run_notice", "kernel": self.kernel, "run": run, "state": state, "ranks": "0-1"}
        self._socket.sendall(json.dumps({**message, **_told(more)}).encode() + b"\n")


def _told(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a message's fields, with a fault in place of its text."""
    text = fields.get("fault")
    return fields if text is None else {**fields, "fault": {"kind": "raised", "text": text}}


def rank(number: int, *, state: str = "ready", host: str = "node7", device: str | None = None) -> dict[str, Any]:
    """Return a rank of a kernel."""
    local = number % 8
    named = device or f"GPU {local} (NVIDIA H200)"
    return {
        "rank": number,
        "local_rank": local,
        "host": host,
        "pid": 14700 + number,
        "device": named,
        "threads": 4,
        "state": state,
    }
