"""Exchanges gradients of one kind as one flat array, once the backward pass has made all: PyTorch and JAX.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from jupyter_ddl.horovod_api.process_sets import Op

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


def exchanges_in_one() -> bool:
    """Return True."""
    return True


def naming(name: str) -> AbstractContextManager[str]:
    """Return a context that gives the name."""
    return nullcontext(name)


def has_same_rows_always(gradient: Any) -> bool:  # noqa: ARG001 (TensorFlow's)
    """Return False: gradients are dense."""
    return False


def is_slices(gradient: Any) -> bool:  # noqa: ARG001 (TensorFlow's)
    """Return False: a gradient of Keras's embedding is dense here."""
    return False


def divided(gradient: Any, divisor: int) -> Any:
    """Return a gradient divided by a number."""
    return gradient / divisor


def reduced_flat(exchange: Any, flat: Any, summed: Callable[[Any, Any], Any]) -> Any:
    """Return a flat gradient, reduced as an Exchange says. Collective.

    Args:
        exchange: the optimizer's `Exchange`.
        flat: this rank's.
        summed: returns the sum of an array over the ranks of a process set; it may change the array.
    """
    sent, context = exchange.compression.compress(flat)
    averages = exchange.op == Op.Average
    if averages and exchange.predivide != 1.0:
        sent = sent / exchange.predivide
    total = exchange.compression.decompress(summed(sent, exchange.process_set), context)
    return total / (exchange.process_set.size() / exchange.predivide) if averages else total
