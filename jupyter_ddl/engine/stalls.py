"""Reads what Horovod's stall inspector writes to standard error on the coordinator: who waits for whom.

Source: horovod 0.28.1, horovod/common/stall_inspector.cc, StallInspector::CheckForStalledTensors, and logging.cc,
which writes a line's head in pieces and what follows it in one.

Every search here begins at a place that is found once, and looks at a bounded length from there, so the time is linear
in what a cell prints.

Runs on: every rank; Horovod writes on the first of those that share the collective.
"""

from __future__ import annotations

import re
from time import monotonic, time
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.events import CollectiveStalled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.engine.horovod_runtime import HorovodRuntime

_MARK = b"stall_inspector.cc"
# From its mark on.
_MESSAGE = re.compile(
    rb"stall_inspector\.cc:\d{1,6}\] One or more tensors were submitted [^\n]{0,400}?"
    rb" for more than (\d{1,9}) seconds\.[^\n]{0,400}\n"
    rb"Missing ranks:((?:\n\d{1,9}!?: \[[^\n]*\])+)(?:\nOne or more rank [^\n]*)?\n(?!\d+!?: \[|One or more rank )"
)
_MISSING = re.compile(rb"\n(\d+)!?: \[([^\n]*)\]")
# An unfinished message, from its mark on: each whole line is one of a message's.
_BEGUN = re.compile(
    rb"stall_inspector\.cc(?::\d{0,6})?(?:\] ?(?P<text>[^\r\n]{0,400}))?\Z"
    rb"|stall_inspector\.cc:\d{1,6}\] One or more tensors were submitted [^\r\n]{0,400}\n"
    rb"(?:(?P<missing>[^\r\n]{0,14})|Missing ranks:(?:\n\d{1,9}!?: \[[^\r\n]*|\nOne or more rank[^\r\n]*)*"
    rb"(?:\n(?:\d{0,9}!?:? ?|(?P<more>[A-Z][^\r\n]{0,15}))?)?)\Z"
)
_TEXT, _RANKS, _MORE = b"One or more tensors were submitted ", b"Missing ranks:", b"One or more rank "
# How a line of Horovod's log begins; 0 is a digit. Then come the file's name and the line's number.
_STAMP = b"[0000-00-00 00:00:00.000000: "
_NAME_ENDS = re.compile(rb"[\]\r\n\x1b]")
_NAME_BYTES = 4_200
_HELD_BYTES = 1 << 14
# The pieces of one line come within microseconds: a beginning that stays unfinished is the program's own text.
_HELD_S = 0.5


class StallReader:
    """Filters a rank's standard error, and reports the stalls that it finds.

    Args:
        rank: this rank.
        horovod: this rank's.
        emit: sends an event.
    """

    def __init__(self, rank: int, horovod: HorovodRuntime, emit: Callable[[CollectiveStalled], None]) -> None:
        self._rank = rank
        self._horovod = horovod
        self._emit = emit
        self._run = ""
        self._held = b""
        self._held_since_s = 0.0

    @property
    def waits_s(self) -> float | None:
        """How long the held text may still be held; None where there is none."""
        return max(0.0, self._held_since_s + _HELD_S - monotonic()) if self._held else None

    def begin(self, run: str | None) -> None:
        """Read for a run from here on; for none where it is None."""
        self._run, self._held = run or "", b""

    def feed(self, data: bytes) -> bytes:
        """Return what of this, and of what was held, is to be shown."""
        if not self._run:
            return data
        data, self._held = self._held + data, b""
        shown, at = [], 0
        for begins, mark in _marks(data):
            if begins < at:
                continue
            message = _MESSAGE.match(data, mark)
            if message is not None:
                self._found(message)
                shown.append(data[at:begins])
                at = message.end()
            elif len(data) - begins <= _HELD_BYTES and _is_message_begun(data, mark):
                shown.append(data[at:begins])
                return b"".join(shown) + self._keep(data[begins:])
        begins = data.rfind(b"[", max(at, len(data) - _NAME_BYTES))
        if begins >= 0 and _is_head_begun(data[begins:]):
            shown.append(data[at:begins])
            return b"".join(shown) + self._keep(data[begins:])
        return b"".join(shown) + data[at:]

    def finish(self) -> bytes:
        """Return what was held: nothing more comes of it."""
        held, self._held = self._held, b""
        return held

    def _keep(self, data: bytes) -> bytes:
        self._held, self._held_since_s = data, monotonic()
        return b""

    def _found(self, match: re.Match[bytes]) -> None:
        missing = {
            rank.decode(): [name.strip() for name in names.decode(errors="replace").removesuffix(" ...").split(",")]
            for rank, names in _MISSING.findall(match[2])
        }
        tensors = tuple(sorted({name for names in missing.values() for name in names}))
        if self._horovod.has_own_ranks():
            # Horovod counts the ranks of a process set, or of the user's communicator, by themselves.
            missing = {}
        self._emit(CollectiveStalled(self._run, self._rank, time(), float(match[1]), tensors, missing))


def _marks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield, for each place that names the inspector's file, where its line's head begins, and the place."""
    mark, after = data.find(_MARK), 0
    while mark >= 0:
        begins = data.rfind(b"[", after, mark)
        if begins >= 0 and _NAME_ENDS.search(data, begins, mark) is None:
            yield begins, mark
        after = mark + len(_MARK)
        mark = data.find(_MARK, after)


def _is_head_begun(data: bytes) -> bool:
    """Return whether this may become the head of a line of Horovod's."""
    stamp = data[: len(_STAMP)]
    fits = all(
        48 <= byte <= 57 if wanted == 48 else byte == wanted for byte, wanted in zip(stamp, _STAMP, strict=False)
    )
    return fits and len(data) <= _NAME_BYTES and _NAME_ENDS.search(data, len(_STAMP)) is None


def _is_message_begun(data: bytes, mark: int) -> bool:
    """Return whether this, which names the inspector's file at `mark`, may become a message."""
    found = _BEGUN.match(data, mark)
    if found is None:
        return False
    parts = ((found["text"], _TEXT), (found["missing"], _RANKS), (found["more"], _MORE))
    return all(part is None or wanted.startswith(part[: len(wanted)]) for part, wanted in parts)
