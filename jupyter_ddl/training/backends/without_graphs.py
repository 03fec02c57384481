"""Answers for backends without TensorFlow's graphs: operations run in Python's order, and shapes are numbers.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager


def after(tensors: Sequence[Any]) -> AbstractContextManager[Any]:  # noqa: ARG001 (TensorFlow's)
    """Return an empty context: operations run in their order."""
    return nullcontext()


def rows(value: Any) -> int:
    """Return the number of rows."""
    return int(value.shape[0])


def on_device(name: str) -> AbstractContextManager[Any]:
    """Return a context that runs on a device; "" leaves it to Keras."""
    return keras.device(name) if name else nullcontext()


def unconverted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function."""
    return function
