"""Answers for backends that keep nothing of a model, or of its data's order, beside Keras: TensorFlow and JAX.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any


def buffers_of(model: Any) -> list[Any]:  # noqa: ARG001 (PyTorch's)
    """Return nothing: all that a model keeps are Keras's variables."""
    return []


def state_of_orders() -> None:
    """Return None: orders are drawn from a pipeline's seed on TensorFlow, and from NumPy's state on JAX."""


def set_state_of_orders(state: Any) -> None:
    """Do nothing."""
