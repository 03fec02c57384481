"""Gives arrays that travel between ranks as NumPy's: `interface.Arrays`, on PyTorch and JAX. Runs on: every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


def portable(part: Any) -> Any:
    """Return an array."""
    return np.asarray(part)


def from_portable(portable: Any) -> Any:
    """Return the array."""
    return portable


def joined(parts: Sequence[Any]) -> Any:
    """Return the rows of several arrays, as Keras's `predict` joins its batches."""
    return np.concatenate(parts)
