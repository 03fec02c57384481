"""Reads what Horovod's stall inspector writes to standard error on the coordinator: who waits for whom.

Source: horovod 0.28.1, horovod/common/stall_inspector.cc, StallInspector::CheckForStalledTensors

Runs on: every rank; Horovod writes on the first of those that share the collective.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from jupyter_ddl.engine import horovod_runtime
from jupyter_ddl.events import CollectiveStalled

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK = b"stall_inspector.cc"
_MESSAGE = re.compile(
    rb"\[[^\]\n]*stall_inspector\.cc:\d+\] One or more tensors were submitted [^\n]*"
    rb" for more than (\d+) seconds\.[^\n]*\n"
    rb"Missing ranks:((?:\n\d+!?: \[[^\n]*\])+)(?:\nOne or more rank [^\n]*)?\n(?!\d+!?: \[|One or more rank )"
)
_MISSING = re.compile(rb"\n(\d+)!?: \[([^\n]*)\]")
# It is written in pieces: such a line may be the beginning of one.
_BEGUN = re.compile(rb"\[\d{0,4}\Z|\[\d{4}-[^\n]*\Z|\[\d{4}-[^\n]*stall_inspector\.cc.*\Z", re.DOTALL)
_HELD_BYTES = 1 << 16


class StallReader:
    """Takes a rank's standard error, gives what is left to be shown, and tells what it found.

    Args:
        rank: this rank.
        emit: sends an event.
    """

    def __init__(self, rank: int, emit: Callable[[CollectiveStalled], None]) -> None:
        self._rank = rank
        self._emit = emit
        self._run = ""
        self._held = b""

    def begin(self, run: str | None) -> None:
        """Read for a run from here on; for none where it is None."""
        self._run, self._held = run or "", b""

    def feed(self, data: bytes) -> bytes:
        """Return what of this, and of what was held, is to be shown."""
        if not self._run:
            return data
        data, self._held = self._held + data, b""
        if _MARK in data:
            data = _MESSAGE.sub(self._found, data)
        begun = _BEGUN.search(data)
        if begun is not None and len(begun[0]) < _HELD_BYTES:
            data, self._held = data[: begun.start()], begun[0]
        return data

    def finish(self) -> bytes:
        """Return what was held: nothing more comes of it."""
        held, self._held = self._held, b""
        return held

    def _found(self, match: re.Match[bytes]) -> bytes:
        missing = {
            rank.decode(): [name.strip() for name in names.decode(errors="replace").removesuffix(" ...").split(",")]
            for rank, names in _MISSING.findall(match[2])
        }
        tensors = tuple(sorted({name for names in missing.values() for name in names}))
        if horovod_runtime.has_own_ranks():
            # Horovod counts the ranks of a process set, or of the user's communicator, by themselves.
            missing = {}
        self._emit(CollectiveStalled(self._run, self._rank, time.time(), float(match[1]), tensors, missing))
        return b""
