"""Reads the output and events of ranks on several hosts, and sends them requests: over ZeroMQ, from their relays.

Runs on: the terminal's process.
"""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import zmq

from jupyter_ddl.cluster.host_clocks import on_our_clock
from jupyter_ddl.protocol.codec import as_line, decode
from jupyter_ddl.protocol.script_frames import (
    BYE,
    END,
    EVENTS,
    FRAMES,
    HELLO,
    KEPT_MESSAGES,
    REQUEST,
    Connection,
    Hello,
    RankEnded,
)
from jupyter_ddl.protocol.script_pipes import STREAMS
from jupyter_ddl.script.streams import EventReader, OutputReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_ddl.protocol.events import CollectiveStalled, Event, Stream
    from jupyter_ddl.protocol.requests import Request
    from jupyter_ddl.script.streams import Reader

# In one call of `read`: what is due elsewhere, as a Ctrl-C, must not wait for a rank that prints without end.
_MOST_AT_ONCE = 64
# What a relay sent before it was killed may be on its way when mpiexec has ended.
_LATE_S = 0.2


class NetworkListener:
    """The relays of all ranks: a `RankTransport` that is read by `read`, in the caller's thread.

    Args:
        address: of this host, on which to listen.
        world_size: the number of ranks.
        reader: gets what the ranks write and send.
        shows_start: TensorFlow's log of its start is to be shown too.
        run: whose stalls are read in what Horovod writes; None for none.
        clock_offsets_s: each host's clock minus this one's, by the host's own name.

    Attributes:
        ended: rank -> how its process ended, of those that have reported it.
    """

    def __init__(
        self,
        address: str,
        world_size: int,
        reader: Reader,
        *,
        shows_start: bool,
        run: str | None,
        clock_offsets_s: Mapping[str, float],
    ) -> None:
        self.ended: dict[int, RankEnded] = {}
        self._world_size = world_size
        self._offsets_s = clock_offsets_s
        self._peers: dict[int, bytes] = {}
        self._ranks: dict[bytes, int] = {}
        self._heard_s: dict[int, float] = {}
        self._waiting: dict[int, list[bytes]] = {}
        self._outputs = {
            (rank, stream): OutputReader(rank, stream, reader, shows_start=shows_start, run=run)
            for rank in range(world_size)
            for stream in STREAMS
        }
        self._events: dict[int, EventReader] = {}
        self._reader = reader
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        public, secret = zmq.curve_keypair()
        self._socket.curve_secretkey = secret
        self._socket.curve_publickey = public
        self._socket.curve_server = True
        for option, value in ((zmq.RCVHWM, KEPT_MESSAGES), (zmq.LINGER, 0), (zmq.IPV6, 1)):
            self._socket.setsockopt(option, value)
        host = f"[{address}]" if ":" in address else address
        self._connection = Connection(
            f"tcp://{host}:{self._socket.bind_to_random_port(f'tcp://{host}')}", public.decode(), secrets.token_hex(32)
        )

    @property
    def line_for_ranks(self) -> bytes:
        """What rank 0 must read from mpiexec's input: where we listen, and the keys."""
        return as_line(self._connection)

    def read(self, timeout_s: float) -> bool:
        """Take what has come, within a time; return whether something had."""
        is_over = not timeout_s
        if is_over and len(self.ended) < len(self._ranks):
            timeout_s = _LATE_S
        count = 0
        if self._socket.poll(int(timeout_s * 1000)):
            while count < _MOST_AT_ONCE:
                try:
                    peer, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                count += 1
                self._take(peer, frames)
        for output in self._outputs.values():
            output.release(is_over=is_over and not count)
        return count > 0

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:  # noqa: ARG002
        """Send a request, which each rank handles at once; one that does not listen yet gets it when it does."""
        line = as_line(request)
        for rank in ranks:
            if rank in self._peers:
                self._send(self._peers[rank], REQUEST, line)
            else:
                self._waiting.setdefault(rank, []).append(line)

    def quiet(self) -> dict[int, float]:
        """Return for how long nothing has come from each rank that has not ended: rank -> seconds."""
        now_s = time.monotonic()
        return {rank: now_s - heard_s for rank, heard_s in self._heard_s.copy().items() if rank not in self.ended}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        self._context.term()

    def _take(self, peer: bytes, frames: list[bytes]) -> None:
        if len(frames) != FRAMES:
            return
        kind, content = frames
        if kind == HELLO:
            self._welcome(peer, content)
        rank = self._ranks.get(peer)
        if rank is None:
            return
        self._heard_s[rank] = time.monotonic()
        if kind == EVENTS:
            self._events[rank].feed(content)
        elif kind == END:
            self.ended[rank] = self._corrected(decode(content, RankEnded), self.ended.get(rank))
            self._send(peer, BYE, b"")
        # BEAT says no more than that it came.
        elif (output := self._outputs.get((rank, kind.decode()))) is not None:  # type: ignore[arg-type]
            output.feed(content)

    def _welcome(self, peer: bytes, content: bytes) -> None:
        """Take a rank's relay, if it says the token; no rank has two."""
        hello = decode(content, Hello)
        is_ours = hmac.compare_digest(hello.token, self._connection.token)
        if not is_ours or hello.rank in self._peers or not 0 <= hello.rank < self._world_size:
            return
        rank = hello.rank
        self._peers[rank], self._ranks[peer] = peer, rank
        offset_s = self._offsets_s.get(hello.host, 0.0)
        self._events[rank] = EventReader(_OnOurClock(self._reader, offset_s))
        for line in self._waiting.pop(rank, []):
            self._send(peer, REQUEST, line)

    def _corrected(self, ended: RankEnded, before: RankEnded | None) -> RankEnded:
        return before or replace(ended, at_s=ended.at_s - self._offsets_s.get(ended.host, 0.0))

    def _send(self, peer: bytes, kind: bytes, content: bytes) -> None:
        # A ROUTER drops what is for a peer that is gone.
        self._socket.send_multipart([peer, kind, content])


class _OnOurClock:
    """Passes on a rank's events, with their times as this host's clock has them."""

    def __init__(self, reader: Reader, offset_s: float) -> None:
        self._reader = reader
        self._offset_s = offset_s

    def take(self, event: Event) -> None:
        """Take an event."""
        self._reader.take(on_our_clock(event, self._offset_s))

    def take_output(self, rank: int, stream: Stream, data: bytes, shown: bytes) -> None:
        """Take what a rank wrote."""
        self._reader.take_output(rank, stream, data, shown)

    def take_stall(self, stalled: CollectiveStalled) -> None:
        """Take what Horovod wrote of a stall."""
        self._reader.take_stall(stalled)
