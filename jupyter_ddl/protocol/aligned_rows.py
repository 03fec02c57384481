"""Aligns rows of cells under each other, as every table in a terminal or a cell is.

Runs on: kernel, Jupyter server, terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Return a line for each row, without spaces at its end.

    Args:
        rows: of equal length; at least one.
        right: the columns whose cells end alike, as numbers do: from 0.

    Example:
        >>> aligned([("rank", "host"), ("0", "nodea")], right=(0,))
        ['rank  host', '   0  nodea']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
