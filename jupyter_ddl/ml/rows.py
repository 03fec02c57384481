"""Takes a rank's part of the rows.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from jupyter_ddl.errors import InvalidInput


def rows_of(rank: int, world_size: int, *arrays: Any) -> list[Any]:
    """Return a rank's rows of arrays that have as many: every `world_size`-th one, from the rank's own number on.

    So no rank gets one class alone where the rows are sorted.

    Args:
        rank: whose.
        world_size: how many ranks there are.
        arrays: NumPy arrays, sparse matrices or what pandas has, of as many rows; None stays None.

    Raises:
        InvalidInput: they have different numbers of rows, or fewer than there are ranks.
    """
    counts = {len_of(array) for array in arrays if array is not None}
    if len(counts) > 1:
        raise InvalidInput(
            "All arrays must have as many rows.",
            f"{', '.join(map(str, sorted(counts)))} rows",
            "Pass one target a row.",
        )
    if min(counts) < world_size:
        raise InvalidInput(
            "Each rank must have a row.", f"{min(counts)} rows for {world_size} ranks", "Train it with fewer ranks."
        )
    return [None if array is None else _every(array, rank, world_size) for array in arrays]


def len_of(array: Any) -> int:
    """Return the number of an array's rows."""
    return int(array.shape[0]) if hasattr(array, "shape") else len(array)


def _every(array: Any, rank: int, world_size: int) -> Any:
    return array.iloc[rank::world_size] if hasattr(array, "iloc") else array[rank::world_size]
