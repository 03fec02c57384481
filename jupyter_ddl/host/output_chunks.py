"""What a rank writes to one of its standard streams, cut into the chunks that are sent and recorded.

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
    """One stream of one rank: what was written to it and not yet sent.

    Args:
        stream: which.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pending = bytearray()
        self._skipped_bytes = 0

    def keep(self, data: bytes) -> None:
        """Keep what was read, or its end, to be sent."""
        self._pending += data
        if len(self._pending) > CHUNK_LIMIT_BYTES:
            # The tail is what a reader wants; the cut is moved to a line's start, so that no half line is shown.
            cut = len(self._pending) - CHUNK_LIMIT_BYTES
            line = self._pending.find(b"\n", cut)
            cut = line + 1 if line >= 0 else cut
            del self._pending[:cut]
            self._skipped_bytes += cut

    def take(self, run: str, rank: int, end_bytes: int) -> OutputChunk | None:
        """Return what has not been sent yet as an event, or None.

        Args:
            run: the event's.
            rank: likewise.
            end_bytes: how long the log is by now.
        """
        if not self._pending:
            return None
        text = self._decoder.decode(bytes(self._pending))
        chunk = OutputChunk(run, rank, self.stream, text, self._skipped_bytes, time(), end_bytes)
        self._pending.clear()
        self._skipped_bytes = 0
        return chunk

    def take_back(self, chunk: OutputChunk) -> None:
        """Keep what could not be sent."""
        self._skipped_bytes += chunk.skipped_bytes
        self._pending[:0] = chunk.text.encode()
