"""What is cut from a rank's output is said in the cell that wrote it."""

from __future__ import annotations

import pytest

from jupyter_ddl.host.output_chunks import CHUNK_LIMIT_BYTES, Chunks


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_of_a_line_that_is_too_long_the_end_is_sent_with_what_was_left_out(end: bytes) -> None:
    chunks = Chunks("stdout")
    written = b"x" * 3_000_000 + end
    for at in range(0, len(written), 65536):
        chunks.keep(written[at : at + 65536])
    sent = chunks.take("run-1", 0, len(written))
    assert sent is not None
    assert sent.text == written[-CHUNK_LIMIT_BYTES:].decode()
    assert sent.skipped_bytes == len(written) - CHUNK_LIMIT_BYTES
    # The next cell's output has nothing of it.
    chunks.keep(b"next\n")
    after = chunks.take("run-2", 0, len(written) + 5)
    assert after is not None
    assert (after.text, after.skipped_bytes) == ("next\n", 0)


def test_no_half_line_is_sent() -> None:
    chunks = Chunks("stdout")
    line = b"y" * 999 + b"\n"
    chunks.keep(line * 100)
    sent = chunks.take("run", 0, 100_000)
    assert sent is not None
    assert sent.text == line.decode() * (CHUNK_LIMIT_BYTES // 1000)
    assert sent.skipped_bytes + len(sent.text) == 100_000
