"""Hides the lines in which TensorFlow logs that Horovod was shut down during an operation.

A rank that is released because another has raised logs one for each collective that it was in. They would come before
the error that matters and add nothing to it. The rank's log has them.
Source: tensorflow 2.21, core/framework/local_rendezvous.cc, LocalRendezvous::StartAbort

Runs on: every rank.
"""

from __future__ import annotations

import re

# absl's beginning of a line, or that of TensorFlow's own log; then the file, and the status.
_BEGINNING = rb"(?:[IWE]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IWE] )"
_NOTE = re.compile(
    rb"(?m)^" + _BEGINNING + rb"[\w./]*local_rendezvous\.cc:\d+\] Local rendezvous is aborting with status: "
    rb"\w+: Horovod has been shut down[^\n]*\n(?:\t ?\[\[[^\n]*\n)*"
)
_MARK = b"local_rendezvous.cc:"
# An unfinished last line that may become one: not beyond the name of the file.
_BEGUN = re.compile(
    rb"(?:[IWE]\d{4}(?: [\d:. ]*| [\d:.]+ +\d+ [\w./]*)?"
    rb"|\d{4}-(?:[\d-]*|\d\d-\d\d [\d:.]*(?: [IWE]?| [IWE] [\w./]*)?))\Z"
)
_DETAIL = re.compile(rb"\t ?\[\[[^\n]*\n")
_HELD_BYTES = 1 << 13


class ShutdownNotes:
    """Filters a rank's standard error piece by piece."""

    def __init__(self) -> None:
        self._held = b""
        # The last line was left out, and may have details in the next ones.
        self._goes_on = False

    def feed(self, data: bytes) -> bytes:
        """Return what of this, and of what was held, is to be shown."""
        if not data:
            return data
        data, self._held = self._held + data, b""
        start = data.rfind(b"\n") + 1
        last = data[start:]
        if last and len(last) < _HELD_BYTES and (_BEGUN.match(last) or _MARK in last or self._may_be_detail(last)):
            data, self._held = data[:start], last
        while self._goes_on and (detail := _DETAIL.match(data)):
            data = data[detail.end() :]
        if not data:
            return data
        if _MARK not in data:
            self._goes_on = False
            return data
        shown = _NOTE.sub(b"", data)
        ends = list(_NOTE.finditer(data))
        self._goes_on = bool(ends) and ends[-1].end() == len(data)
        return shown

    def finish(self) -> bytes:
        """Return what was held: nothing more comes of it."""
        held, self._held, self._goes_on = self._held, b"", False
        return held

    def _may_be_detail(self, last: bytes) -> bool:
        return last.startswith(b"\t")
