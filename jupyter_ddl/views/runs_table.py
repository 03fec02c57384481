"""Formats the table of runs, and a run in one line."""

from __future__ import annotations

import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.protocol.number_texts import duration, loss, number, rate
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.views.line import plain_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = ("run", "when", "ranks", "outcome", "took", "samples/s", "loss")
_NUMBERS = ("took", "samples/s", "loss")
# Shown where a run of the table has one.
_TOLD = ("name", "cell", "tags")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


class Row(Protocol):
    """What the table shows of a run; see `runs.store.RunRecord`."""

    @property
    def run(self) -> str: ...  # noqa: D102
    @property
    def start_s(self) -> float: ...  # noqa: D102
    @property
    def ranks(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def world_size(self) -> int: ...  # noqa: D102
    @property
    def state(self) -> str: ...  # noqa: D102
    @property
    def seconds(self) -> float | None: ...  # noqa: D102
    @property
    def samples_per_s(self) -> float | None: ...  # noqa: D102
    @property
    def loss(self) -> float | None: ...  # noqa: D102
    @property
    def model(self) -> str | None: ...  # noqa: D102
    @property
    def notebook(self) -> str | None: ...  # noqa: D102
    @property
    def cell_number(self) -> int | None: ...  # noqa: D102
    @property
    def name(self) -> str | None: ...  # noqa: D102
    @property
    def tags(self) -> tuple[str, ...]: ...  # noqa: D102


def runs_table(rows: Sequence[Row], now_s: float | None = None) -> str:
    """Return a line a run as aligned text: id, when, ranks, outcome, duration, samples/s of all ranks, last loss.

    Where runs have them, then their names, notebooks with the cell's number, and tags.
    """
    now_s = time.time() if now_s is None else now_s
    every = [(*_COLUMNS, *_TOLD), *((*_cells(row, now_s), *_told(row)) for row in rows)]
    # A column of which only the head has a text is left out, if it is one of those.
    columns = [column for column in zip(*every, strict=True) if column[0] not in _TOLD or any(column[1:])]
    numbers = [at for at, column in enumerate(columns) if column[0] in _NUMBERS]
    return "\n".join(aligned(list(zip(*columns, strict=True)), numbers))


def run_line(row: Row) -> str:
    """Describe a run in one line."""
    ranks = _ranks(row)
    parts = [
        f"{'rank' if len(row.ranks) == 1 else 'ranks'} {ranks}" if ranks else "no ranks",
        row.state if row.seconds is None else f"{row.state} after {duration(row.seconds)}",
    ]
    if row.samples_per_s is not None:
        parts.append(rate(row.samples_per_s, "samples"))
    if row.loss is not None:
        parts.append(f"loss {loss(row.loss)}")
    if row.model:
        parts.append(row.model)
    name = f' "{row.name}"' if row.name else ""
    tags = f" ({', '.join(row.tags)})" if row.tags else ""
    return _plain(f"{row.run}{name}: {'; '.join(parts)}{tags}")


def _cells(row: Row, now_s: float) -> tuple[str, ...]:
    seconds = row.seconds
    if seconds is None and row.state == "running":
        seconds = max(0.0, now_s - row.start_s)
    return (
        _plain(row.run),
        _ago(now_s - row.start_s),
        _ranks(row),
        _plain(row.state),
        "" if seconds is None else duration(seconds),
        "" if row.samples_per_s is None else number(row.samples_per_s),
        "" if row.loss is None else loss(row.loss),
    )


def _told(row: Row) -> tuple[str, ...]:
    number = "" if row.cell_number is None else f" [{row.cell_number}]"
    notebook = "" if row.notebook is None else PurePath(row.notebook).name + number
    return _plain(row.name or ""), _plain(notebook), _plain(", ".join(row.tags))


def _plain(text: str) -> str:
    """Return text from a rank or a file's name as one harmless line."""
    return " ".join(plain_lines(text))


def _ranks(row: Row) -> str:
    return compact(row.ranks) + (f" of {row.world_size}" if len(row.ranks) < row.world_size else "")


def _ago(seconds: float) -> str:
    if seconds < _MINUTE_S:
        return "just now"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min ago"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S:.0f} h ago"
    days = int(seconds // _DAY_S)
    return "1 day ago" if days == 1 else f"{days:,} days ago"
