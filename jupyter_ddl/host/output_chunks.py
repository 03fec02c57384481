"""Cuts what a rank writes to a standard stream into the chunks that are sent and recorded.

However fast a rank writes, at most CHUNK_LIMIT_BYTES are sent each CHUNK_INTERVAL_S; its log is complete.

Runs on: every rank of a cell, and the terminal's process of a script.
"""

from __future__ import annotations

import codecs
from time import time
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.events import OutputChunk

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Stream

CHUNK_INTERVAL_S = 0.1
CHUNK_LIMIT_BYTES = 32 * 1024


class Chunks:
    """The output of one stream of one rank that is not yet sent.

    Args:
        stream: stdout or stderr.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pending = bytearray()
        self._skipped_bytes = 0

    def keep(self, data: bytes) -> None:
        """Keep output to be sent; of too much, its end."""
        self._pending += data
        if len(self._pending) > CHUNK_LIMIT_BYTES:
            # The tail is what a reader wants; the cut is moved to a line's start, so that no half line is shown. Of one
            # line that is longer, its end is shown: with no text to send, a later cell would have the count.
            cut = len(self._pending) - CHUNK_LIMIT_BYTES
            line = self._pending.find(b"\n", cut)
            cut = line + 1 if 0 <= line < len(self._pending) - 1 else cut
            del self._pending[:cut]
            self._skipped_bytes += cut

    def take(self, run: str, rank: int, end_bytes: int) -> OutputChunk | None:
        """Return the output that is not yet sent as an event; None where there is none.

        Args:
            run: the event's run.
            rank: the event's rank.
            end_bytes: the length of the log by now.
        """
        if not self._pending:
            return None
        text = self._decoder.decode(bytes(self._pending))
        chunk = OutputChunk(run, rank, self.stream, text, self._skipped_bytes, time(), end_bytes)
        self._pending.clear()
        self._skipped_bytes = 0
        return chunk

    def take_back(self, chunk: OutputChunk) -> None:
        """Keep a chunk that could not be sent."""
        self._skipped_bytes += chunk.skipped_bytes
        self._pending[:0] = chunk.text.encode()
