"""Formats the table of a cluster's ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import RankReady

_NUMBERS = ("rank", "pid", "threads")
_COLUMNS = ("rank", "host", "pid", "device", "threads")


def status_table(ranks: Sequence[RankReady]) -> str:
    """Return rank, host, pid, device and threads of each rank as aligned text, in the order of ranks."""
    rows = [_COLUMNS, *(_cells(ready) for ready in sorted(ranks, key=lambda ready: ready.rank))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = []
    for row in rows:
        cells = zip(_COLUMNS, row, widths, strict=True)
        aligned = (cell.rjust(width) if name in _NUMBERS else cell.ljust(width) for name, cell, width in cells)
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def _cells(ready: RankReady) -> tuple[str, ...]:
    return tuple(str(getattr(ready, column)) for column in _COLUMNS)
