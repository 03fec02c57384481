"""TensorFlow's own words for a Horovod that was shut down are not shown; everything else is, byte for byte."""

from __future__ import annotations

import pytest

from jupyter_ddl.engine.shutdown_notes import ShutdownNotes

STATUS = (
    b"Local rendezvous is aborting with status: UNKNOWN: Horovod has been shut down. This was caused by an exception "
    b"on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks had "
    b"finished execution.\n"
)
NOTES = [
    b"W0000 00:00:1795434111.453333    9112 local_rendezvous.cc:407] " + STATUS,
    b"2026-11-23 12:00:00.123456: W tensorflow/core/framework/local_rendezvous.cc:404] " + STATUS,
    b"I0000 00:00:1795434111.453333 9112 local_rendezvous.cc:407] " + STATUS + b"\t [[{{node HorovodAllreduce}}]]\n",
]
KEPT = [
    NOTES[0].replace(b"UNKNOWN: Horovod has been shut down", b"OUT_OF_RANGE: End of sequence"),
    b"W0000 00:00:1795434111.453333    9112 other.cc:407] " + STATUS,
    b"I said: Local rendezvous is aborting with status: UNKNOWN: Horovod has been shut down\n",
    b"ValueError: Horovod has been shut down\n",
    b"\t [[mine]]\n",
    b"2026-11-23 12:00:00 step 1\r2026-11-23 12:00:01 step 2\r",
    b"no end",
    b"W0000",
]


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("kept", KEPT)
def test_exactly_those_lines_are_left_out(note: bytes, kept: bytes) -> None:
    for cut in (*range(5, len(note)), len(note)):
        notes = ShutdownNotes()
        pieces = [b"before\n" + note + note[:cut], note[cut:] + b"x\n", note + kept[:9], kept[9:]]
        shown = b"".join(map(notes.feed, pieces)) + notes.finish()
        # What follows a note as TensorFlow's details do is taken for them.
        assert shown == b"before\nx\n" + (b"" if kept.startswith(b"\t [[") else kept), cut


def test_what_is_no_such_line_is_shown_at_once() -> None:
    notes = ShutdownNotes()
    for piece in (b"epoch 1", b"\repoch 2", b"2026-11-23 12:00:00 step", b"", b"\n", b"Warning: x"):
        assert notes.feed(piece) == piece


def test_a_long_line_is_not_withheld_for_ever() -> None:
    notes = ShutdownNotes()
    shown = b"".join(notes.feed(b"local_rendezvous.cc:" * 100) for _ in range(10))
    assert len(shown) > 10_000
