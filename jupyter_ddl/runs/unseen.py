"""Reads the end of a killed rank's log that no event had.

Runs on: kernel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.events import OutputChunk
from jupyter_ddl.protocol.rank_files import ENDED, LOG, rank_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_LIMIT_BYTES = 32 * 1024
# The shell beside a rank appends it in some milliseconds. Ranks whose controller was killed end seconds later.
_WAIT_S = 1.0
_POLL_S = 0.01


def last_words(folder: Path, run: str, seen_bytes: Mapping[int, int], ranks: Iterable[int]) -> Iterator[OutputChunk]:
    """Yield the unseen end of the ranks' logs, only its last part where it is long.

    Waits for ranks that are about to end, `_WAIT_S` at most.

    Args:
        folder: the run's.
        run: its id.
        seen_bytes: rank -> how much of its log the events hold.
        ranks: the ranks that did not reach the cell's end.
    """
    ranks = list(ranks)
    _await_end(folder, ranks)
    for rank in ranks:
        seen = seen_bytes.get(rank, 0)
        try:
            with untrusted_files.open_file(folder / rank_file(rank, LOG)) as log:
                size = log.seek(0, 2)
                begins = max(seen, size - _LIMIT_BYTES)
                log.seek(begins)
                text = log.read().decode(errors="replace")
        except OSError:
            # It has none, or it is on another host.
            continue
        if text:
            yield OutputChunk(run, rank, "stderr", text, begins - seen, end_bytes=size)


def _await_end(folder: Path, ranks: Iterable[int]) -> None:
    """Wait until the ranks' logs are complete, which a file beside each shows."""
    until_s = time.monotonic() + _WAIT_S
    # A rank without a log has not begun the cell, or writes elsewhere.
    left = [rank for rank in ranks if (folder / rank_file(rank, LOG)).exists()]
    while left := [rank for rank in left if not (folder / rank_file(rank, ENDED)).exists()]:
        if time.monotonic() >= until_s:
            return
        time.sleep(_POLL_S)
