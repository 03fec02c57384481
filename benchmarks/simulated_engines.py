"""Engines of ipyparallel and ranks of ours, a few hundred in one process: `python -m benchmarks.simulated_engines`.

They speak to a real controller as engines do: registration, heartbeat, queue (mux) and iopub. Each prints its number,
whatever it is asked to run: as an engine, for `%%px`, and as a rank, for `%%distributed`. They run no code.

`simulated_engines CONNECTION_FILE FIRST LAST`: the ranks from FIRST on, up to LAST; ends with its standard input.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zmq

from jupyter_ddl.cluster.channel import TOPIC, signer
from jupyter_ddl.protocol.codec import as_json
from jupyter_ddl.protocol.events import OutputChunk, RankFinished
from jupyter_ddl.protocol.requests import MESSAGE_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

WORLD_ID = "wide"
REGISTERED_S = 120.0


class Engines:
    """The engines of one process.

    Args:
        info: the content of the controller's connection file for engines.
        numbers: of the engines, in the world.
    """

    def __init__(self, info: dict[str, Any], numbers: range) -> None:
        self._info = info
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 4 * len(numbers) + 16)
        self._session = signer(info)
        self._poller = zmq.Poller()
        self._pings = self._connected(zmq.SUB, "hb_ping")
        self._pings.subscribe(b"")
        self._poller.register(self._pings, zmq.POLLIN)
        self._iopub = self._connected(zmq.PUB, "iopub")
        self._hearts: list[zmq.Socket[bytes]] = []
        self._shells: dict[zmq.Socket[bytes], int] = {}
        registrars = [self._begin(number) for number in numbers]
        # The hub counts an engine in once its heart beats.
        began_s = time.monotonic()
        while time.monotonic() - began_s < REGISTERED_S and not all(one.poll(0) for one in registrars):
            self.serve_once(50)
        for registrar in registrars:
            _, frames = self._session.feed_identities(registrar.recv_multipart())
            reply = self._session.deserialize(frames)["content"]
            if reply["status"] != "ok":
                sys.exit(f"An engine was not registered: {reply}")

    def serve_once(self, timeout_ms: int) -> None:
        """Answer what comes within some milliseconds."""
        for socket, _ in self._poller.poll(timeout_ms):
            if socket is self._pings:
                ping = self._pings.recv_multipart()
                for heart in self._hearts:
                    heart.send_multipart(ping)
            else:
                self._answer(socket)

    def _begin(self, number: int) -> zmq.Socket[bytes]:
        """Connect an engine, and ask for its registration; return the socket on which the reply comes."""
        identity = name_of(number).encode()
        self._hearts.append(self._connected(zmq.DEALER, "hb_pong", identity))
        shell = self._connected(zmq.DEALER, "mux", identity)
        self._shells[shell] = number
        self._poller.register(shell, zmq.POLLIN)
        registrar = self._connected(zmq.DEALER, "registration", identity)
        self._session.send(registrar, "registration_request", content={"uuid": identity.decode(), "id": number})
        return registrar

    def _connected(self, kind: int, port: str, identity: bytes = b"") -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.set_hwm(0)
        if identity:
            socket.identity = identity
        socket.connect(f"{self._info['interface']}:{self._info[port]}")
        return socket

    def _answer(self, shell: zmq.Socket[bytes]) -> None:
        number = self._shells[shell]
        identities, frames = self._session.feed_identities(shell.recv_multipart())
        message = self._session.deserialize(frames)
        if message["msg_type"] == MESSAGE_TYPE:
            for event in self._events_of(number, message["content"]):
                # As engine/emitter.py sends it: packed already.
                content: Any = as_json(event)
                packed = self._session.msg("ddl_event", content=content)
                self._iopub.send_multipart(self._session.serialize(packed, ident=TOPIC))
            return
        told: list[tuple[str, dict[str, Any]]] = [
            ("status", {"execution_state": "busy"}),
            ("stream", {"name": "stdout", "text": f"{number}\n"}),
            ("status", {"execution_state": "idle"}),
        ]
        for name, content in told:
            topic = f"engine.{number}.{name}".encode()
            self._session.send(
                self._iopub, name, content, parent=message, ident=topic, metadata={"engine": name_of(number)}
            )
        reply = {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
        engine = {"engine": name_of(number), "engine_id": number, "status": "ok"}
        self._session.send(shell, "execute_reply", reply, parent=message, ident=identities, metadata=engine)

    def _events_of(self, number: int, request: dict[str, Any]) -> Iterator[OutputChunk | RankFinished]:
        if request["type"] == "run_cell":
            text = f"{number}\n"
            yield OutputChunk(request["run"], number, "stdout", text, 0, time.time(), len(text), 1)
            yield RankFinished(request["run"], number, time.time(), n=2)


def name_of(number: int) -> str:
    """Return an engine's identity, as ranks of ours have it."""
    return f"{WORLD_ID}.{number}"


def main() -> None:
    """Be engines until standard input ends."""
    connection_file, first, last = sys.argv[1:]
    engines = Engines(json.loads(Path(connection_file).read_text()), range(int(first), int(last) + 1))
    print("ready", flush=True)
    stdin = zmq.Poller()
    stdin.register(sys.stdin.fileno(), zmq.POLLIN)
    while not stdin.poll(0):
        engines.serve_once(200)


if __name__ == "__main__":
    main()
