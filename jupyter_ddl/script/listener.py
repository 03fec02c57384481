"""Reads the terminal's ends of the pipes: the output and events of all ranks; sends them requests.

Runs on: the terminal's process.
"""

from __future__ import annotations

import codecs
import os
import re
import selectors
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, cast

from jupyter_ddl.host.stall_messages import StallReader
from jupyter_ddl.protocol.codec import as_line, decode
from jupyter_ddl.protocol.events import Event, OutputChunk
from jupyter_ddl.protocol.script_pipes import STREAMS, Pipes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_ddl.protocol.events import CollectiveStalled, Stream
    from jupyter_ddl.protocol.requests import Request

_READ_BYTES = 1 << 16
# What TensorFlow's C++ code logs at its start, line after line on each rank; and that it finds no GPU where it is to
# use none.
_STARTUP_LOG = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR\n"
    rb"|I0000 00:00:\d+\.\d+ +\d+ [\w./]+:\d+\] .{0,4000}\n"
    rb"|E0000 00:00:\d+\.\d+ +\d+ cuda_platform\.cc:\d+\] failed call to cuInit: .{0,4000}\n"
)


class Reader(Protocol):
    """What gets all that comes from the ranks."""

    def take(self, event: Event) -> None:
        """Take an event, or the part of a rank's output that is to be shown, as an event."""

    def take_output(self, rank: int, stream: Stream, data: bytes, shown: bytes) -> None:
        """Take what a rank wrote, before the part of it that is to be shown: `data` is all of it."""

    def take_stall(self, stalled: CollectiveStalled) -> None:
        """Take what Horovod wrote of a stall."""


class Listener:
    """All ranks' pipes: a `RankTransport` that is read by `read`, in the caller's thread.

    Args:
        folder: where to make the pipes; only their owner may enter it.
        world_size: the number of ranks.
        reader: gets what the ranks write and send.
        shows_start: TensorFlow's log of its start is to be shown too.
        run: whose stalls are read in what Horovod writes; None for none.
    """

    def __init__(
        self,
        folder: Path,
        world_size: int,
        reader: Reader,
        *,
        shows_start: bool,
        run: str | None,
    ) -> None:
        self._stack = ExitStack()
        self._selector = self._stack.enter_context(selectors.DefaultSelector())
        self._requests: dict[int, int] = {}
        self._outputs: list[_Output] = []
        for rank in range(world_size):
            pipes = Pipes(folder, rank)
            pipes.make()
            for stream in STREAMS:
                output = _Output(rank, stream, reader, shows_start=shows_start, run=run)
                self._outputs.append(output)
                self._read_from(pipes.open_to_read(stream), output)
            self._read_from(pipes.open_to_read("events"), _Events(reader))
            self._requests[rank] = self._kept(pipes.open_to_request())

    def read(self, timeout_s: float) -> bool:
        """Read once from each pipe that has something, within a time; return whether one had."""
        ready = self._selector.select(timeout_s) if self._selector.get_map() else []
        # What a rank printed before it sent an event is in its pipe by then.
        for key, _ in sorted(ready, key=lambda one: isinstance(one[0].data, _Events)):
            if data := os.read(key.fd, _READ_BYTES):
                cast("_Output | _Events", key.data).feed(data)
            else:
                self._selector.unregister(key.fd)  # no process holds its other end now
        for output in self._outputs:
            output.release(is_over=not ready and not timeout_s)
        return bool(ready)

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:  # noqa: ARG002
        """Send a request, which each rank handles at once; one that does not listen yet gets it when it does."""
        line = as_line(request)
        for rank in ranks:
            os.write(self._requests[rank], line)

    def close(self) -> None:
        """Close all pipes."""
        self._stack.close()

    def _read_from(self, descriptor: int, reader: _Output | _Events) -> None:
        self._selector.register(self._kept(descriptor), selectors.EVENT_READ, reader)

    def _kept(self, descriptor: int) -> int:
        self._stack.callback(os.close, descriptor)
        return descriptor


class _Output:
    """Reads one stream of one rank."""

    def __init__(self, rank: int, stream: Stream, reader: Reader, *, shows_start: bool, run: str | None) -> None:
        self._rank = rank
        self._stream = stream
        self._reader = reader
        self._leaves_out_start = stream == "stderr" and not shows_start
        self._stalls = StallReader(rank, reader.take_stall)
        self._stalls.begin(run if stream == "stderr" else None)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        shown = _STARTUP_LOG.sub(b"", data) if self._leaves_out_start else data
        self._show(data, self._stalls.feed(shown))

    def release(self, *, is_over: bool) -> None:
        """Show what is held, as the beginning of a message of Horovod's, once nothing more comes of it.

        Args:
            is_over: nothing more comes at all.
        """
        waits_s = self._stalls.waits_s
        if waits_s == 0.0 or (is_over and waits_s is not None):
            self._show(b"", self._stalls.finish())

    def _show(self, data: bytes, shown: bytes) -> None:
        self._reader.take_output(self._rank, self._stream, data, shown)
        self._reader.take(OutputChunk("", self._rank, self._stream, self._decoder.decode(shown)))


class _Events:
    """Reads one rank's events: lines, cut anywhere."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._begun = b""

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._reader.take(decode(line, Event))
