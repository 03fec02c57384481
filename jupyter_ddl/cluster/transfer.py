"""Moves values between the kernel and the ranks, on a socket of its own beside the channel's.

Not ipyparallel's client: its hub counts an engine from its second heartbeat on, seconds after it can run cells, and
its reader thread ends with whatever unpickling raises. Values are pickled as ipyparallel pickles them: big arrays go
without copies, functions and classes of the notebook by value.

Pickle runs code, so values move over encrypted connections only, in messages signed with the cluster's key.

Runs on: kernel.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zmq

from jupyter_ddl.cluster.channel import connected, signed_content, signer
from jupyter_ddl.cluster.pickled import rebuilt, serialized
from jupyter_ddl.errors import ClusterLost, RunInterrupted, TransferFailed
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.protocol.codec import decode, encode
from jupyter_ddl.protocol.number_texts import duration
from jupyter_ddl.protocol.requests import MESSAGE_TYPE, Release
from jupyter_ddl.protocol.value_requests import (
    PullValue,
    PushValues,
    SaveVariables,
    StageVariables,
    UseVariables,
    ValuesMoved,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from jupyter_ddl.protocol.transport import RankTransport
    from jupyter_ddl.protocol.value_requests import Move

_POLL_S = 0.05


@dataclass(frozen=True)
class _Answer:
    """What one rank answered: the buffers of a value, or an error."""

    error: str | None
    released: str | None
    buffers: list[Any]


class Transfer:
    """Pushes and pulls variables, for one thread at a time. Connects on first use: most sessions move none at first.

    Args:
        connection_file: ipyparallel's connection file for clients.
        world_id: the prefix of the ranks' identities.
        lost: returns why the ranks are gone; None while they live.
        transport: to the ranks, which handle a Release of a transfer at once.
    """

    def __init__(
        self, connection_file: Path, world_id: str, lost: Callable[[], str | None], transport: RankTransport
    ) -> None:
        self._connection_file = connection_file
        self._world_id = world_id
        self._lost = lost
        self._transport = transport
        self._lock = threading.Lock()
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._signer: Any = None
        self._releases = 0
        self._release_reason = ""
        self._began_at_s = 0.0
        self._is_closed = False

    def push(self, values: Mapping[str, Any], ranks: Sequence[int]) -> None:
        """Set variables on ranks, and wait until they are set.

        Raises:
            TransferFailed: a value cannot be sent, or not be rebuilt on a rank.
            ClusterLost: the ranks ended meanwhile.
            RunInterrupted: an interrupt came; ranks that were rebuilding a value were released.
        """
        pickled = [serialized(name, value) for name, value in values.items()]
        move = secrets.token_hex(8)
        request = PushValues(move, tuple(values), tuple(len(buffers) for buffers in pickled))
        answers = self._exchange(request, [buffer for buffers in pickled for buffer in buffers], ranks)
        problems = _problems(answers)
        if problems:
            raise TransferFailed(
                f"A value must be known to the ranks' Python. Received: {', '.join(values)}, which a rank could not "
                f"rebuild: {problems}. Define its class on the ranks too, in a %%distributed cell or a module."
            )

    def pull(self, name: str, ranks: Sequence[int]) -> dict[int, Any]:
        """Return a variable's value on each rank.

        Raises:
            TransferFailed: it is not defined there, cannot be sent, or cannot be rebuilt here.
            ClusterLost: the ranks ended meanwhile.
            RunInterrupted: an interrupt came; ranks that were pickling the value were released.
        """
        answers = self._exchange(PullValue(secrets.token_hex(8), name), [], ranks)
        problems = _problems(answers)
        if problems:
            raise TransferFailed(
                f"A variable must be defined on the ranks, and sendable. Received: {name} from ranks {list(ranks)}: "
                f"{problems}. Pull an array or a plain value instead."
            )
        # No lock is held here: a value's own code, however long it takes, must not delay other transfers.
        return rebuilt(name, {rank: answers[rank].buffers for rank in ranks})

    def save_variables(self, folder: Path, ranks: Sequence[int]) -> dict[int, Any]:
        """Have ranks write what their cells defined into a folder; return what each rank kept, and left out.

        Raises:
            TransferFailed: a rank could not write.
            ClusterLost: the ranks ended meanwhile.
            RunInterrupted: an interrupt, or a release, came.
        """
        return self._on_each(SaveVariables(secrets.token_hex(8), str(folder)), ranks)

    def load_variables(self, folder: Path, left_out: Sequence[str], ranks: Sequence[int]) -> dict[int, Any]:
        """Have ranks load what `save_variables` wrote, all or none; return what each could not define again.

        Raises:
            TransferFailed: a rank could not load its variables: none has any.
            ClusterLost: the ranks ended meanwhile.
            RunInterrupted: an interrupt came.
        """
        is_wanted = False
        try:
            raised = self._on_each(StageVariables(secrets.token_hex(8), str(folder), tuple(left_out)), ranks)
            is_wanted = True
        finally:
            # Where one could not, the others forget theirs.
            self._on_each(UseVariables(secrets.token_hex(8), is_wanted), ranks)
        return raised

    def _on_each(self, request: Move, ranks: Sequence[int]) -> dict[int, Any]:
        answers = self._exchange(request, [], ranks)
        problems = _problems(answers)
        if problems:
            raise TransferFailed(f"Each rank must save, or load, its own variables. Received: {problems}.")
        return rebuilt("variables", {rank: answer.buffers for rank, answer in answers.items() if answer.buffers})

    def release(self, reason: str, at_s: float | None = None) -> None:
        """End the transfers that are running or waiting, as an interrupt does. Safe from any thread.

        Args:
            reason: what released them, e.g. "the panel".
            at_s: when that was requested, in seconds since the epoch; a transfer that began later is not ended.
        """
        if at_s is not None and at_s < self._began_at_s:
            return
        self._release_reason = reason
        self._releases += 1

    def close(self) -> None:
        """Close the connection, if there is one. Safe to call twice, and while another thread moves values."""
        self._is_closed = True
        with self._lock:
            self._disconnect()
            if self._context is not None:
                self._context.destroy(linger=0)
                self._context = None

    def _exchange(self, request: Move, buffers: list[Any], ranks: Sequence[int]) -> dict[int, _Answer]:
        """Send a request to ranks and wait for the answer of each."""
        answers: dict[int, _Answer] = {}
        self._began_at_s = time.time()
        releases, began_s = self._releases, time.monotonic()
        # Recorded, not raised: an interrupt between two frames of a message would leave the socket in the middle of it.
        with interrupts_noted() as interrupted:

            def check() -> None:
                self._check_alive()
                if interrupted.came or self._releases != releases:
                    by = "" if interrupted.came else f" by {self._release_reason}"
                    interrupted.came = False
                    raise RunInterrupted(
                        f"Moving values was interrupted{by} after {duration(time.monotonic() - began_s)}."
                    )

            with self._turn(check):
                try:
                    check()
                    socket = self._connected()
                    for rank in ranks:
                        self._send(socket, request, buffers, rank)
                    while len(answers) < len(ranks):
                        if socket.poll(int(_POLL_S * 1000)):
                            self._take(socket, request.move, answers)
                        check()
                except BaseException:
                    # Answers that still come are dropped: the next exchange has a socket of its own.
                    self._disconnect()
                    if not self._is_closed:
                        ended = Release(request.move, "the transfer ended")
                        self._transport.send(ended, sorted(set(ranks) - set(answers)), now=True)
                    raise
        by = next((answer.released for answer in answers.values() if answer.released is not None), None)
        if by is not None:
            raise RunInterrupted(f"Moving values was interrupted by {by} after {duration(time.monotonic() - began_s)}.")
        return answers

    @contextmanager
    def _turn(self, check: Callable[[], None]) -> Iterator[None]:
        """Wait for other threads' transfers, unless `check` raises meanwhile."""
        while not self._lock.acquire(timeout=_POLL_S):
            check()
        try:
            yield
        finally:
            self._lock.release()

    def _connected(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            try:
                info = untrusted_files.read_object(self._connection_file, only_own=True)
                assert info["curve_serverkey"], "values move over encrypted connections only"
                self._signer = signer(info)
                if self._context is None:
                    # A context of our own, as the channel has.
                    self._context = zmq.Context()
                self._socket = connected(self._context, zmq.DEALER, info, "mux")
            except (OSError, ValueError, zmq.ZMQError) as error:
                # The file is gone with its cluster, or this process can open no more.
                raise self._gone(str(error)) from error
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None

    def _send(self, socket: zmq.Socket[bytes], request: Move, buffers: list[Any], rank: int) -> None:
        message = self._signer.msg(MESSAGE_TYPE, content=encode(request))
        frames = self._signer.serialize(message, ident=f"{self._world_id}.{rank}".encode())
        socket.send_multipart(frames + buffers, copy=False)

    def _take(self, socket: zmq.Socket[bytes], move: str, answers: dict[int, _Answer]) -> None:
        """Take one message from the socket: an answer to `move`, if it is signed with the cluster's key."""
        frames = socket.recv_multipart(copy=False)
        # ipyparallel's queue sends the rank's identity first, and the signature comes after a delimiter.
        _, rest = self._signer.feed_identities(frames, copy=False)
        content = signed_content(self._signer, [frame.bytes for frame in rest[:5]])
        answer = None if content is None else decode(content, ValuesMoved)
        if isinstance(answer, ValuesMoved) and answer.move == move:
            answers[answer.rank] = _Answer(answer.error, answer.released, [frame.buffer for frame in rest[5:]])

    def _check_alive(self) -> None:
        if self._is_closed or self._lost() is not None:
            raise self._gone("they are being ended")

    def _gone(self, otherwise: str) -> ClusterLost:
        return ClusterLost(f"Ranks must live until their values have been moved. Received: {self._lost() or otherwise}")


def _problems(answers: Mapping[int, _Answer]) -> str:
    """Return what ranks could not do, each error once; empty where all could."""
    ranks: dict[str, list[int]] = {}
    for rank, answer in sorted(answers.items()):
        if answer.error is not None:
            ranks.setdefault(answer.error, []).append(rank)
    return "; ".join(f"rank {failed[0]} raised {error}" for error, failed in ranks.items())
