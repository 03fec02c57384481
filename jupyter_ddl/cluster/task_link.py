"""Carries joblib's tasks to ranks and their results back, on a socket of its own beside the channel's.

The control channel carries tasks, since a rank reads it while a cell runs. As values, they are pickled, so they move
over encrypted connections only, in messages signed with the cluster's key.

Runs on: kernel.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import zmq

from jupyter_ddl.cluster.channel import connected, signed_content, signer
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.codec import decode, encode
from jupyter_ddl.protocol.requests import MESSAGE_TYPE
from jupyter_ddl.protocol.task_requests import TaskEnded

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.requests import Request

_WAKES = 4096


class TaskLink:
    """A socket to the ranks of one world, for one thread at a time; `wake` is safe from any other.

    Args:
        connection_file: ipyparallel's connection file for clients.
        world_id: the prefix of the ranks' identities.
    """

    def __init__(self, connection_file: Path, world_id: str) -> None:
        self._world_id = world_id
        info = untrusted_files.read_object(connection_file, only_own=True)
        assert info["curve_serverkey"], "values move over encrypted connections only"
        self._signer: Any = signer(info)
        self._context = zmq.Context()
        self._socket = connected(self._context, zmq.DEALER, info, "control")
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._woken, zmq.POLLIN)

    def send(self, request: Request, rank: int, buffer: Any = None) -> None:
        """Send a rank a request, which it handles at once, with a buffer or without."""
        message = self._signer.msg(MESSAGE_TYPE, content=encode(request))
        frames = self._signer.serialize(message, ident=f"{self._world_id}.{rank}".encode())
        self._socket.send_multipart(frames + ([] if buffer is None else [buffer]), copy=False)

    def receive(self, timeout_s: float) -> tuple[TaskEnded, Any] | None:
        """Return how a task ended, with what is pickled; None where no signed answer came, or `wake` was called."""
        ready = dict(self._poller.poll(int(timeout_s * 1000)))
        if self._woken.fileno() in ready:
            self._woken.recv(_WAKES)
        if self._socket not in ready:
            return None
        frames = self._socket.recv_multipart(copy=False)
        _, rest = self._signer.feed_identities(frames, copy=False)
        content = signed_content(self._signer, [frame.bytes for frame in rest[:5]])
        answer = None if content is None else decode(content, TaskEnded)
        return (answer, rest[5].buffer) if isinstance(answer, TaskEnded) and len(rest) > 5 else None

    def wake(self) -> None:
        """End a wait in `receive`."""
        with suppress(OSError):
            # It is full, so that the wait ends anyway; or closed.
            self._waker.send(b"x")

    def close(self) -> None:
        """Close it, once what was sent is on its way."""
        self._woken.close()
        self._waker.close()
        self._socket.close(linger=1000)
        self._context.term()
