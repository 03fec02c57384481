"""Takes arrays of JAX apart, and joins them: `interface.Arrays`. Runs on: every rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.experimental import sparse


def dense_parts(value: Any) -> list[Any] | None:
    """Return the dense arrays that a sparse one is made of; None for any other value."""
    if isinstance(value, sparse.BCOO):
        whole = value.sort_indices()
        return [whole.indices, whole.data]
    return None


def gathered(tensor: Any, numbers: Any) -> Any:
    """Return some rows of an array."""
    return tensor[np.asarray(numbers)]


def rows_of_sparse(part: Any, start: Any, stop: Any) -> Any:
    """Return rows of a sparse array; None for any other value."""
    return part[int(start) : int(stop)] if isinstance(part, sparse.BCOO) else None
