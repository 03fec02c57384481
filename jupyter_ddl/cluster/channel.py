"""Carries requests to the ranks and events back, over ipyparallel's sockets and with its key.

ipyparallel's own Client drops messages that another session's request caused, and stops calling back at the reply; so
the session has sockets of its own on the same controller: one that queues requests at the ranks (mux), one that reaches
a rank whose main thread is busy (control), and one that hears every event (iopub).

Runs on: kernel.
"""

from __future__ import annotations

import json
import threading
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, cast

import zmq
from jupyter_client.session import Session as Signer

from jupyter_ddl.wire import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from jupyter_ddl.events import Event
    from jupyter_ddl.requests import Request

_TOPIC = b"ddl"
_MESSAGE_TYPE = "ddl_request"


class Channel:
    """The session's sockets on one cluster's controller.

    Args:
        connection_file: ipyparallel's connection file for clients.
        world_id: the prefix of the ranks' identities.
        on_event: called with each event, in a thread of the channel's own; it must not block.
    """

    def __init__(self, connection_file: Path, world_id: str, on_event: Callable[[Event], None]) -> None:
        self._world_id = world_id
        self._on_event = on_event
        info = json.loads(connection_file.read_text())
        self._sender, self._receiver = _signer(info), _signer(info)
        # A context of our own: closing it cannot wait for anybody else's sockets.
        self._context = zmq.Context()
        self._send_lock = threading.Lock()
        self._mux = self._connect(zmq.DEALER, info, "mux")
        self._control = self._connect(zmq.DEALER, info, "control")
        self._events = self._connect(zmq.SUB, info, "iopub")
        self._events.subscribe(_TOPIC)
        self._wake_reader = self._context.socket(zmq.PAIR)
        self._wake_reader.bind("inproc://wake")
        self._wake = self._context.socket(zmq.PAIR)
        self._wake.connect("inproc://wake")
        self._thread = threading.Thread(target=self._read, name="jupyter_ddl events", daemon=True)
        self._thread.start()

    def queue(self, request: Request, ranks: Iterable[int]) -> None:
        """Send a request that each rank handles in its turn."""
        self._send(self._mux, request, ranks)

    def interject(self, request: Request, ranks: Iterable[int]) -> None:
        """Send a request that each rank handles at once, whatever its main thread does."""
        self._send(self._control, request, ranks)

    def close(self) -> None:
        """Close the sockets. Safe to call twice."""
        if self._context.closed:
            return
        if self._thread is not threading.current_thread():
            self._wake.send(b"")
            self._thread.join()
        with self._send_lock:
            self._context.destroy(linger=0)

    def _send(self, socket: zmq.Socket[bytes], request: Request, ranks: Iterable[int]) -> None:
        content = encode(request)
        with self._send_lock:
            if self._context.closed:
                return  # nobody is there any more, and whoever asks is told so otherwise
            for rank in ranks:
                message = self._sender.msg(_MESSAGE_TYPE, content=content)
                identity = f"{self._world_id}.{rank}".encode()
                socket.send_multipart(self._sender.serialize(message, ident=identity))

    def _read(self) -> None:
        poller = zmq.Poller()
        poller.register(self._events, zmq.POLLIN)
        poller.register(self._wake_reader, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._wake_reader in ready:
                return
            content = self._content(self._events.recv_multipart())
            if content is not None:
                self._on_event(decode(content))

    def _content(self, parts: list[bytes]) -> dict[str, Any] | None:
        """Return a message's content; None where it is not signed with the cluster's key.

        Not jupyter_client's `deserialize`: it parses the dates of two headers that nobody reads, which takes a kernel
        with a thousand ranks a tenth of its core.
        """
        _, frames = self._receiver.feed_identities(parts)
        signature, *signed = cast("list[bytes]", frames)
        if not compare_digest(signature, self._receiver.sign(signed[:4])):
            return None
        content: dict[str, Any] = self._receiver.unpack(signed[3])
        return content

    def _connect(self, kind: int, info: dict[str, Any], port: str) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        # Nothing is dropped: the ranks bound what they send.
        socket.set_hwm(0)
        if info.get("curve_serverkey"):
            public, secret = zmq.curve_keypair()
            socket.curve_serverkey = info["curve_serverkey"].encode()
            socket.curve_publickey, socket.curve_secretkey = public, secret
        socket.connect(f"{info['interface']}:{info[port]}")
        return socket


def _signer(info: dict[str, Any]) -> Signer:
    """Return what signs and checks messages with the cluster's key. Not safe to share between threads."""
    return Signer(
        key=info["key"].encode(),
        signature_scheme=info["signature_scheme"],
        packer=info["pack"],
        unpacker=info["unpack"],
    )
