"""Reads what ranks write: each stream of a rank, and its events, as they come from a pipe or a relay.

Runs on: the terminal's process.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Protocol

from jupyter_ddl.host.stall_messages import StallReader
from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.events import Event, OutputChunk

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import CollectiveStalled, Stream

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


class OutputReader:
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


class EventReader:
    """Reads one rank's events: lines, cut anywhere."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._begun = b""

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._reader.take(decode(line, Event))
