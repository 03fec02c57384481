"""The pipes between a terminal and the ranks of its script: named ones in a folder of their own, or a relay's.

On one host the terminal holds the other ends, on several a relay beside each rank (`script_frames`). A rank's standard
streams are the pipes themselves: what C++ code, a crash handler or a process that the script started writes comes the
same way, complete, and in the order in which it was written. Events (to the terminal) and requests (to the rank) are
lines of JSON.

Runs on: every rank; the named ones also on the terminal's process, on the same host.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.rank_files import rank_file
from jupyter_ddl.protocol.requests import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jupyter_ddl.protocol.events import Stream

STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
_KINDS = (*STREAMS, "events", "requests")


class RankPipes(Protocol):
    """A rank's ends of its pipes."""

    def take_streams(self) -> None:
        """Make the streams this process's standard output and error, and nothing its input."""

    def open_events(self) -> int:
        """Return a descriptor that writes events."""

    def requests(self) -> Iterator[Any]:
        """Yield requests as they come, until the process at the other end has ended."""


class Pipes:
    """The named pipes of one rank.

    Args:
        folder: where the pipes are; only their owner may enter it.
        rank: whose they are.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder = folder
        self._rank = rank

    def make(self) -> None:
        """Make them. Runs on: the terminal, before the rank starts."""
        for kind in _KINDS:
            os.mkfifo(self._path(kind), mode=0o600)

    def open_to_read(self, kind: str) -> int:
        """Return a descriptor that reads a stream, or the events, without waiting. Runs on: the terminal."""
        return os.open(self._path(kind), os.O_RDONLY | os.O_NONBLOCK)

    def open_to_request(self) -> int:
        """Return a descriptor that writes requests without waiting. Runs on: the terminal."""
        # For reading too, since a pipe without a reader cannot be opened for writing alone.
        return os.open(self._path("requests"), os.O_RDWR | os.O_NONBLOCK)

    def take_streams(self) -> None:
        """Make the streams this process's standard output and error, and nothing its input. Runs on: the rank."""
        for descriptor, kind in enumerate(STREAMS, start=1):
            _move(self._open_to_write(kind), descriptor)
        _move(os.open(os.devnull, os.O_RDONLY), 0)

    def open_events(self) -> int:
        """Return a descriptor that writes events. Runs on: the rank."""
        return self._open_to_write("events")

    def requests(self) -> Iterator[Any]:
        """Yield requests as they come, until the terminal's process has ended. Runs on: the rank."""
        descriptor = os.open(self._path("requests"), os.O_RDONLY)
        yield from _requests(descriptor)

    def _open_to_write(self, kind: str) -> int:
        # Without waiting: a terminal that has ended reads nothing, which is an error at once.
        descriptor = os.open(self._path(kind), os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return descriptor

    def _path(self, kind: str) -> Path:
        return self._folder / rank_file(self._rank, kind)


class HeldPipes:
    """The pipes of one rank whose other ends a relay holds, which started it.

    Args:
        descriptors: of standard output, standard error, events and requests, as the relay numbers them.
    """

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._stdout, self._stderr, self._events, self._requests = descriptors
        for descriptor in descriptors:
            # The script's own child processes must not hold them.
            os.set_inheritable(descriptor, False)

    def tell_relay(self, line: bytes) -> None:
        """Send the relay a line that is no event, before all of these."""
        os.write(self._events, line)

    def take_streams(self) -> None:
        """Make the streams this process's standard output and error, and nothing its input."""
        _move(self._stdout, 1)
        _move(self._stderr, 2)
        _move(os.open(os.devnull, os.O_RDONLY), 0)

    def open_events(self) -> int:
        """Return a descriptor that writes events."""
        return self._events

    def requests(self) -> Iterator[Any]:
        """Yield requests as they come, until the relay has ended."""
        yield from _requests(self._requests)


def _requests(descriptor: int) -> Iterator[Any]:
    with os.fdopen(descriptor, "rb") as lines:
        for line in lines:
            yield decode(line, Request)


def _move(descriptor: int, to: int) -> None:
    os.dup2(descriptor, to)
    os.close(descriptor)
