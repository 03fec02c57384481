"""Formats the table of a cluster's ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.protocol.aligned_rows import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.rank_life import RankReady

_NUMBERS = ("rank", "pid", "threads")
_COLUMNS = ("rank", "host", "pid", "device", "threads")


def status_table(ranks: Sequence[RankReady]) -> str:
    """Return rank, host, pid, device and threads of each rank as aligned text, in the order of ranks."""
    rows = [_COLUMNS, *(_cells(ready) for ready in sorted(ranks, key=lambda ready: ready.rank))]
    return "\n".join(aligned(rows, [_COLUMNS.index(name) for name in _NUMBERS]))


def _cells(ready: RankReady) -> tuple[str, ...]:
    return tuple(str(getattr(ready, column)) for column in _COLUMNS)
