"""Carries requests to the ranks and events back, over ipyparallel's sockets and with its key.

ipyparallel's own Client drops messages that another session's request caused, and stops calling back at the reply; so
the session has sockets of its own on the same controller: one that queues requests at the ranks (mux), one that reaches
a rank whose main thread is busy (control), and one that receives every event (iopub).

Runs on: kernel.
"""

from __future__ import annotations

import threading
import time
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, cast

import zmq
from jupyter_client.session import Session as Signer

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.host.threads import ErrorsOnce, Supervised, described
from jupyter_ddl.protocol import requests
from jupyter_ddl.protocol.codec import as_json, decode
from jupyter_ddl.protocol.events import Event, RankFailed, RankFinished
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from jupyter_ddl.protocol.requests import Request

TOPIC = b"ddl"
MESSAGE_TYPE = "ddl_event"
# What comes on iopub: a rank's events, what it asks of its kernel, and what a kernel announces to the others.
_HEARD = Event | requests.ReleaseAsked | requests.HorovodAsked | requests.CellRaised


class Channel:
    """The session's sockets on one cluster's controller: a `RankTransport`.

    Args:
        connection_file: ipyparallel's connection file for clients.
        world_id: the prefix of the ranks' identities.
        on_event: called with each event, in a thread of the channel's own; it must not block.
    """

    def __init__(self, connection_file: Path, world_id: str, on_event: Callable[[Event], None]) -> None:
        self._world_id = world_id
        self._on_event = on_event
        info = untrusted_files.read_object(connection_file, only_own=True)
        self._sender, self._receiver = signer(info), signer(info)
        # A context of our own: closing it waits for no other code's sockets.
        self._context = zmq.Context()
        self._send_lock = threading.Lock()
        self._errors = ErrorsOnce()
        self._mux = connected(self._context, zmq.DEALER, info, "mux")
        self._control = connected(self._context, zmq.DEALER, info, "control")
        self._events = connected(self._context, zmq.SUB, info, "iopub")
        self._events.subscribe(TOPIC)
        self._wake_reader = self._context.socket(zmq.PAIR)
        self._wake_reader.bind("inproc://wake")
        self._wake = self._context.socket(zmq.PAIR)
        self._wake.connect("inproc://wake")
        self._thread = Supervised(self._read, "jupyter_ddl events", self._on_failure)
        self._thread.start()

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:
        """Send a request that each rank handles in its turn; with `now` at once, whatever its main thread does."""
        # Packed once for all ranks; the session passes bytes through.
        content: Any = as_json(request)
        socket = self._control if now else self._mux
        with self._send_lock:
            if self._context.closed:
                return  # the ranks have ended, which an event reports
            for rank in ranks:
                message = self._sender.msg(requests.MESSAGE_TYPE, content=content)
                identity = f"{self._world_id}.{rank}".encode()
                socket.send_multipart(self._sender.serialize(message, ident=identity))

    def close(self) -> None:
        """Close the sockets. Safe to call twice."""
        if self._context.closed:
            return
        if self._thread is not threading.current_thread():
            self._wake.send(b"")
            self._thread.join()
        with self._send_lock:
            self._context.destroy(linger=0)

    def _read(self) -> None:
        poller = zmq.Poller()
        poller.register(self._events, zmq.POLLIN)
        poller.register(self._wake_reader, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._wake_reader in ready:
                return
            self._take(self._events.recv_multipart())

    def _take(self, parts: list[bytes]) -> None:
        """Pass on the event of a message; print the error of one that cannot be read or handled, and drop no other."""
        content: bytes | None = None
        try:
            _, frames = self._receiver.feed_identities(parts)
            content = signed_content(self._receiver, cast("list[bytes]", frames))
            if content is None:
                return
            event = decode(content, _HEARD)
        except Exception as error:  # noqa: BLE001  from unsigned noise to an event of a rank of another version
            self._errors.tell(error)
            if content is None or (event := _unreadable_end(content, error)) is None:
                return
        try:
            self._on_event(event)
        except Exception as error:  # noqa: BLE001  an error of ours: the next event may be a rank's end
            self._errors.tell(error)

    def _on_failure(self, error: BaseException) -> None:
        """Report the cluster as lost: without its events no run would ever end."""
        at_s = time.time()
        fault = Fault("lost", "event reader", at_s=at_s, facts=Facts(error=described(error)))
        self._on_event(RankLost(None, fault, at_s))


def _unreadable_end(data: bytes, error: Exception) -> RankFailed | None:
    """Return the failure of a rank whose last event of a run cannot be read; None for another event.

    A run waits for each rank's last event, so that one must not be dropped.
    """
    try:
        content = parse_json(data)
    except ValueError:
        return None
    if not isinstance(content, dict) or content.get("type") not in (RankFinished.type, RankFailed.type):
        return None
    run, rank, host = content.get("run"), content.get("rank"), content.get("host")
    if not isinstance(run, str) or not isinstance(rank, int):
        return None
    message = f"The rank's report of its end could not be read: {described(error)}"
    at_s = time.time()
    return RankFailed(run, rank, str(host or "?"), "UnreadableReport", message, (message,), released=False, at_s=at_s)


def signed_content(signer: Signer, frames: list[bytes]) -> bytes | None:
    """Return a message's content as JSON; None where it is not signed with the cluster's key.

    Not jupyter_client's `deserialize`: it parses the dates of two headers that are never read, which takes a kernel
    with a thousand ranks a tenth of its core.

    Args:
        signer: has the key.
        frames: the message from its signature on.
    """
    signature, *signed = frames
    if not compare_digest(signature, signer.sign(signed[:4])):
        return None
    return signed[3]


def connected(context: zmq.Context[zmq.Socket[bytes]], kind: int, info: dict[str, Any], port: str) -> zmq.Socket[bytes]:
    """Return a socket that is connected to one of the controller's ports.

    Args:
        context: the socket's.
        kind: zmq.DEALER, zmq.SUB ...
        info: the content of ipyparallel's connection file.
        port: the port's name there.
    """
    socket: zmq.Socket[bytes] = context.socket(kind)
    # Nothing is dropped: the ranks limit what they send.
    socket.set_hwm(0)
    if info.get("curve_serverkey"):
        public, secret = zmq.curve_keypair()
        socket.curve_serverkey = info["curve_serverkey"].encode()
        socket.curve_publickey, socket.curve_secretkey = public, secret
    socket.connect(f"{info['interface']}:{info[port]}")
    return socket


def signer(info: dict[str, Any]) -> Signer:
    """Return a signer, which signs and checks messages with the cluster's key. Not safe to share between threads."""
    return Signer(
        key=info["key"].encode(),
        signature_scheme=info["signature_scheme"],
        packer=info["pack"],
        unpacker=info["unpack"],
    )
