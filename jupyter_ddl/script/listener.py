"""Reads the terminal's ends of the pipes: the output and events of all ranks; sends them requests.

Runs on: the terminal's process.
"""

from __future__ import annotations

import os
import selectors
from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.script_pipes import STREAMS, Pipes
from jupyter_ddl.script.streams import EventReader, OutputReader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_ddl.protocol.requests import Request
    from jupyter_ddl.script.streams import Reader

_READ_BYTES = 1 << 16


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
        self._outputs: list[OutputReader] = []
        for rank in range(world_size):
            pipes = Pipes(folder, rank)
            pipes.make()
            for stream in STREAMS:
                output = OutputReader(rank, stream, reader, shows_start=shows_start, run=run)
                self._outputs.append(output)
                self._read_from(pipes.open_to_read(stream), output)
            self._read_from(pipes.open_to_read("events"), EventReader(reader))
            self._requests[rank] = self._kept(pipes.open_to_request())

    def read(self, timeout_s: float) -> bool:
        """Read once from each pipe that has something, within a time; return whether one had."""
        ready = self._selector.select(timeout_s) if self._selector.get_map() else []
        # What a rank printed before it sent an event is in its pipe by then.
        for key, _ in sorted(ready, key=lambda one: isinstance(one[0].data, EventReader)):
            if data := os.read(key.fd, _READ_BYTES):
                cast("OutputReader | EventReader", key.data).feed(data)
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

    def _read_from(self, descriptor: int, reader: OutputReader | EventReader) -> None:
        self._selector.register(self._kept(descriptor), selectors.EVENT_READ, reader)

    def _kept(self, descriptor: int) -> int:
        self._stack.callback(os.close, descriptor)
        return descriptor
