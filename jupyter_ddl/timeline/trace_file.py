"""Reads the events of a timeline that Horovod has written, in pieces: a file may be larger than memory.

Source: horovod 0.28.1, horovod/common/timeline.cc, TimelineWriter: one list of objects, some of them on one line, which
    may lack its end where the process was killed.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PIECE = 1 << 22
# Between two events. Within one there is none, since only its arguments are an object too.
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
# How far before a piece's end such a place begins at the latest.
_LONGEST_EVENT = 1 << 16


class TraceEvent(msgspec.Struct, gc=False):
    """An event in the format of chrome://tracing.

    Attributes:
        ph: its kind: "B" begins a phase, "E" ends it, "X" is a mark here, "M" names a tensor, "i" marks a cycle.
        ts: microseconds since the timeline's beginning.
        pid: the tensor's number.
        name: the phase's name; of a mark the rank's number.
        args: more, by name.
    """

    ph: str
    ts: float = 0.0
    pid: int = 0
    name: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class TraceFile:
    """The events of one file.

    Args:
        path: the file, and no link.

    Attributes:
        is_cut_off: whether the file lacks its end; known when all events have been read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_cut_off = False

    def events(self) -> Iterator[TraceEvent]:
        """Yield them in the file's order.

        Raises:
            InvalidInput: it is no such file, or cannot be read.
        """
        try:
            with untrusted_files.open_file(self.path) as file:
                yield from self._events(file)
        except OSError as error:
            raise InvalidInput(
                "A timeline is a file that can be read.", f"{self.path}: {error.strerror}", "Pass another path."
            ) from error

    def _events(self, file: Any) -> Iterator[TraceEvent]:
        rest = file.read(_PIECE).lstrip()
        if not rest.startswith(b"["):
            raise self._is_none("it does not begin with [")
        rest = rest[1:]
        while piece := file.read(_PIECE):
            rest += piece
            end = _last_between(rest)
            if end is not None:
                yield from self._decoded(rest[: end[0]])
                rest = rest[end[1] :]
        yield from self._last(rest)

    def _last(self, rest: bytes) -> Iterator[TraceEvent]:
        whole = rest.rstrip()
        if whole.endswith(b"]"):
            yield from self._decoded(whole[:-1])
            return
        # Its writer was killed, or still writes: the last event may be a part of one.
        self.is_cut_off = True
        end = _last_between(whole)
        if end is not None:
            yield from self._decoded(whole[: end[0]])
            whole = whole[end[1] :]
        try:
            yield from msgspec.json.decode(b"[" + whole.rstrip(b",") + b"]", type=list[TraceEvent])
        except msgspec.DecodeError:
            return

    def _decoded(self, events: bytes) -> list[TraceEvent]:
        try:
            return msgspec.json.decode(b"[" + events + b"]", type=list[TraceEvent])
        except msgspec.DecodeError as error:
            raise self._is_none(str(error)) from error

    def _is_none(self, why: str) -> InvalidInput:
        return InvalidInput(
            "A timeline is a list of events in JSON, as Horovod writes it.",
            f"{self.path}: {why}",
            "Pass the file that HOROVOD_TIMELINE names, or a run that was recorded with --timeline.",
        )


def _last_between(text: bytes) -> tuple[int, int] | None:
    """Return where the last event but one ends and the last begins; None where there is one event only."""
    for start in (max(0, len(text) - _LONGEST_EVENT), 0):
        found = deque(_BETWEEN.finditer(text, start), maxlen=1)
        if found:
            return found[0].start() + 1, found[0].end() - 1
    return None
