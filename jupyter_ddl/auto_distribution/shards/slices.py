"""Slices rows of a batch or of arrays, of any type.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from jupyter_ddl.training.backends import arrays


def sliced(part: Any, start: Any, stop: Any) -> Any:
    """Return the rows from `start` to `stop` of an array, a frame, a tensor, or a ragged or sparse one.

    Args:
        part: what has rows.
        start: int, or a scalar tensor.
        stop: likewise, behind the last row.
    """
    if hasattr(part, "iloc"):
        return part.iloc[start:stop]
    if (cut := arrays.rows_of_sparse(part, start, stop)) is not None:
        return cut
    return (part.tocsr() if hasattr(part, "tocsr") else part)[start:stop]
