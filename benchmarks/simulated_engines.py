"""Engines of ipyparallel and ranks of ours, a few hundred in one process: `python -m benchmarks.simulated_engines`.

They speak to a real controller as engines do: registration, heartbeat, queue (mux) and iopub. Each prints its number,
whatever it is asked to run: as an engine, for `%%px`, and as a rank, for `%%distributed`. They run no code, and their
messages are made from templates: what real engines do for a message, each does on a core of its own.

`simulated_engines CONNECTION_FILE FIRST LAST`: the ranks from FIRST on, up to LAST; ends with its standard input.
"""

from __future__ import annotations

import hmac
import json
import os
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.session import DELIM

from jupyter_ddl.cluster.channel import TOPIC, signer
from jupyter_ddl.protocol.codec import as_json
from jupyter_ddl.protocol.events import OutputChunk, RankFinished
from jupyter_ddl.protocol.requests import MESSAGE_TYPE

WORLD_ID = "wide"
# Stands in a template where the run's id comes.
ANY_RUN = "any-run"
REPLY = json.dumps({"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}).encode()
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
        self._signer = QuickSigner(info["key"].encode())
        self._poller = zmq.Poller()
        self._pings = self._connected(zmq.SUB, "hb_ping")
        self._pings.subscribe(b"")
        self._poller.register(self._pings, zmq.POLLIN)
        self._iopub = self._connected(zmq.PUB, "iopub")
        self._hearts: list[zmq.Socket[bytes]] = []
        self._shells: dict[zmq.Socket[bytes], Templates] = {}
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
        self._shells[shell] = Templates(number)
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
        engine = self._shells[shell]
        frames = shell.recv_multipart()
        at = frames.index(DELIM)
        header, content = frames[at + 2], frames[at + 5]
        if json.loads(header)["msg_type"] != MESSAGE_TYPE:
            for topic, kind, told in engine.tells:
                self._iopub.send_multipart([topic, *self._signer(kind, header, engine.metadata, told)])
            reply = self._signer("execute_reply", header, engine.replies_metadata, REPLY)
            shell.send_multipart([*frames[:at], *reply])
        elif (request := json.loads(content))["type"] == "run_cell":
            for event in engine.events:
                sent = event.replace(ANY_RUN.encode(), request["run"].encode())
                self._iopub.send_multipart([TOPIC, *self._signer("ddl_event", b"{}", b"{}", sent)])


class Templates:
    """The contents that one engine sends, packed.

    Args:
        number: of the engine.
    """

    def __init__(self, number: int) -> None:
        text = f"{number}\n"
        prefix = f"engine.{number}."
        told = (
            ("status", {"execution_state": "busy"}),
            ("stream", {"name": "stdout", "text": text}),
            ("status", {"execution_state": "idle"}),
        )
        self.tells = [((prefix + kind).encode(), kind, json.dumps(content).encode()) for kind, content in told]
        self.metadata = json.dumps({"engine": name_of(number)}).encode()
        replies = {"engine": name_of(number), "engine_id": number, "status": "ok"}
        self.replies_metadata = json.dumps(replies).encode()
        written = OutputChunk(ANY_RUN, number, "stdout", text, 0, time.time(), len(text), 1)
        self.events = [as_json(written), as_json(RankFinished(ANY_RUN, number, time.time(), n=2))]


class QuickSigner:
    """Makes messages like jupyter_client's Session, and signs them; all have one date.

    Args:
        key: the cluster's.
    """

    def __init__(self, key: bytes) -> None:
        self._hmac = hmac.new(key, digestmod="sha256")
        date = datetime.now(timezone.utc).isoformat()
        self._name = f"{os.getpid()}_{time.time_ns()}"
        self._fields = f'"username":"","session":"{self._name}","date":"{date}","version":"5.4"'
        self._sent = 0

    def __call__(self, kind: str, parent: bytes, metadata: bytes, content: bytes) -> list[bytes]:
        """Return the frames from the delimiter on."""
        self._sent += 1
        header = f'{{"msg_id":"{self._name}_{self._sent}","msg_type":"{kind}",{self._fields}}}'.encode()
        signature = self._hmac.copy()
        for part in (header, parent, metadata, content):
            signature.update(part)
        return [DELIM, signature.hexdigest().encode(), header, parent, metadata, content]


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
