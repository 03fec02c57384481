"""The terminal's ends of the pipes: reads what all ranks say, and sends them requests.

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
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.protocol.events import Stream
    from jupyter_ddl.protocol.requests import Request

_READ_BYTES = 1 << 16
# What TensorFlow's C++ code remarks of itself at its start, line after line on each rank; and that it finds no GPU
# where it is to use none.
_STARTUP_LOG = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR\n"
    r"|I0000 00:00:\d+\.\d+ +\d+ [\w./]+:\d+\] .{0,4000}\n"
    r"|E0000 00:00:\d+\.\d+ +\d+ cuda_platform\.cc:\d+\] failed call to cuInit: .{0,4000}\n"
)


class Listener:
    """All ranks' pipes.

    Args:
        folder: where to make the pipes; only their owner may enter it.
        world_size: the number of ranks.
        take: called with each event, and with what ranks write, as events.
        shows_start: TensorFlow's remarks at its start are wanted too.
    """

    def __init__(self, folder: Path, world_size: int, take: Callable[[Event], None], *, shows_start: bool) -> None:
        self._take = take
        self._stack = ExitStack()
        self._selector = self._stack.enter_context(selectors.DefaultSelector())
        self._requests: dict[int, int] = {}
        for rank in range(world_size):
            pipes = Pipes(folder, rank)
            pipes.make()
            for stream in STREAMS:
                leaves_out = _STARTUP_LOG if stream == "stderr" and not shows_start else None
                self._read_from(pipes.open_to_read(stream), _Output(rank, stream, take, leaves_out))
            self._read_from(pipes.open_to_read("events"), _Events(take))
            self._requests[rank] = self._kept(pipes.open_to_request())

    def read(self, timeout_s: float) -> bool:
        """Read once from each pipe that has something, within a time; return whether one had."""
        ready = self._selector.select(timeout_s) if self._selector.get_map() else []
        for key, _ in ready:
            if data := os.read(key.fd, _READ_BYTES):
                cast("_Reader", key.data).feed(data)
            else:
                self._selector.unregister(key.fd)  # nobody holds its other end any more
        return bool(ready)

    def request(self, rank: int, request: Request) -> None:
        """Send a request to a rank; one that has not begun to listen gets it then."""
        os.write(self._requests[rank], as_line(request))

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
    """What comes from one rank's one stream."""

    def __init__(
        self, rank: int, stream: Stream, take: Callable[[Event], None], leaves_out: re.Pattern[str] | None
    ) -> None:
        self._rank = rank
        self._stream = stream
        self._take = take
        self._leaves_out = leaves_out
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        if self._leaves_out is not None:
            text = self._leaves_out.sub("", text)
        self._take(OutputChunk("", self._rank, self._stream, text))


class _Events:
    """What comes from one rank's events: lines, cut anywhere."""

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take
        self._begun = b""

    def feed(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._take(decode(line, Event))
