"""What stands in the log of a rank that was killed and came in no event: its last words.

Runs on: kernel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.events import OutputChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_LIMIT_BYTES = 32 * 1024
# The shell beside a rank appends them when the rank is gone, some milliseconds before anybody knows that it is.
_WAIT_S = 0.2


def last_words(folder: Path, run: str, seen_bytes: Mapping[int, int], ranks: Iterable[int]) -> Iterator[OutputChunk]:
    """Yield what the ranks' logs have beyond what was seen, the end of it where it is long.

    Args:
        folder: the run's.
        run: its id.
        seen_bytes: rank -> how much of its log has come in events.
        ranks: the ranks that did not come to the cell's end.
    """
    time.sleep(_WAIT_S)
    for rank in ranks:
        seen = seen_bytes.get(rank, 0)
        try:
            with (folder / f"rank-{rank}.log").open("rb") as log:
                size = log.seek(0, 2)
                begins = max(seen, size - _LIMIT_BYTES)
                log.seek(begins)
                text = log.read().decode(errors="replace")
        except OSError:
            # It has none, or it is on another host.
            continue
        if text:
            yield OutputChunk(run, rank, "stderr", text, begins - seen, end_bytes=size)
