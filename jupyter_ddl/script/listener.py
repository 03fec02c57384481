"""Reads the terminal's ends of the pipes: the output and events of all ranks; sends them requests.

Runs on: the terminal's process.
"""

from __future__ import annotations

import codecs
import os
import re
import selectors
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol, cast

from jupyter_ddl.protocol.codec import as_line, decode
from jupyter_ddl.protocol.events import Event, OutputChunk
from jupyter_ddl.protocol.script_pipes import STREAMS, Pipes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from jupyter_ddl.protocol.events import Stream
    from jupyter_ddl.protocol.requests import Request

_READ_BYTES = 1 << 16
# What TensorFlow's C++ code logs at its start, line after line on each rank; and that it finds no GPU where it is to
# use none.
_STARTUP_LOG = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR\n"
    rb"|I0000 00:00:\d+\.\d+ +\d+ [\w./]+:\d+\] .{0,4000}\n"
    rb"|E0000 00:00:\d+\.\d+ +\d+ cuda_platform\.cc:\d+\] failed call to cuInit: .{0,4000}\n"
)


class Listener:
    """All ranks' pipes: a `RankTransport` that is read by `read`, in the caller's thread.

    Args:
        folder: where to make the pipes; only their owner may enter it.
        world_size: the number of ranks.
        on_event: called with each event, and with the part of the ranks' output that is to be shown, as events.
        on_output: called before that with what a rank wrote: rank, stream, all of it, and the part to be shown.
        shows_start: TensorFlow's log of its start is to be shown too.
    """

    def __init__(
        self,
        folder: Path,
        world_size: int,
        on_event: Callable[[Event], None],
        on_output: Callable[[int, Stream, bytes, bytes], None],
        *,
        shows_start: bool,
    ) -> None:
        self._stack = ExitStack()
        self._selector = self._stack.enter_context(selectors.DefaultSelector())
        self._requests: dict[int, int] = {}
        for rank in range(world_size):
            pipes = Pipes(folder, rank)
            pipes.make()
            for stream in STREAMS:
                leaves_out = _STARTUP_LOG if stream == "stderr" and not shows_start else None
                self._read_from(pipes.open_to_read(stream), _Output(rank, stream, on_event, on_output, leaves_out))
            self._read_from(pipes.open_to_read("events"), _Events(on_event))
            self._requests[rank] = self._kept(pipes.open_to_request())

    def read(self, timeout_s: float) -> bool:
        """Read once from each pipe that has something, within a time; return whether one had."""
        ready = self._selector.select(timeout_s) if self._selector.get_map() else []
        # What a rank printed before it sent an event is in its pipe by then.
        for key, _ in sorted(ready, key=lambda one: isinstance(one[0].data, _Events)):
            if data := os.read(key.fd, _READ_BYTES):
                cast("_Reader", key.data).feed(data)
            else:
                self._selector.unregister(key.fd)  # no process holds its other end now
        return bool(ready)

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:  # noqa: ARG002
        """Send a request, which each rank handles at once; one that does not listen yet gets it when it does."""
        line = as_line(request)
        for rank in ranks:
            os.write(self._requests[rank], line)

    def close(self) -> None:
        """Close all pipes."""
        self._stack.close()

    def _read_from(self, descriptor: int, reader: _Reader) -> None:
        self._selector.register(self._kept(descriptor), selectors.EVENT_READ, reader)

    def _kept(self, descriptor: int) -> int:
        self._stack.callback(os.close, descriptor)
        return descriptor


class _Reader(Protocol):
    def feed(self, data: bytes) -> None:
        """Take what was read."""


class _Output:
    """Reads one stream of one rank."""

    def __init__(
        self,
        rank: int,
        stream: Stream,
        take: Callable[[Event], None],
        record: Callable[[int, Stream, bytes, bytes], None],
        leaves_out: re.Pattern[bytes] | None,
    ) -> None:
        self._rank = rank
        self._stream = stream
        self._take = take
        self._record = record
        self._leaves_out = leaves_out
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes) -> None:
        shown = data if self._leaves_out is None else self._leaves_out.sub(b"", data)
        self._record(self._rank, self._stream, data, shown)
        self._take(OutputChunk("", self._rank, self._stream, self._decoder.decode(shown)))


class _Events:
    """Reads one rank's events: lines, cut anywhere."""

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take
        self._begun = b""

    def feed(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._take(decode(line, Event))
