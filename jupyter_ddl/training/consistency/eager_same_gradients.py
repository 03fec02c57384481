"""Finds ranks that train on the same batches in custom loops on PyTorch and JAX, as `same_gradients` on TensorFlow.

Runs on: every rank. Nothing here is a collective.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.engine import rank_state
from jupyter_ddl.training.backends import ops
from jupyter_ddl.training.consistency import same_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.engine.cells import Cell


class Exchanges:
    """The first exchanges of the cell that runs, outside of Keras's own steps."""

    def __init__(self) -> None:
        self.looked = 0
        self.same = 0


def begin_cell(_cell: Cell) -> None:
    """Compare the first exchanges again."""
    exchanges = rank_state.here().part(Exchanges)
    exchanges.looked = exchanges.same = 0


def look(own: Sequence[Any], reduced: Sequence[Any], exchange: Any) -> None:
    """Warn, once in a cell and on one rank, where this rank's gradients equal the average of all ranks.

    Args:
        own: this rank's gradients, as they went into the exchange; None for a variable that the loss does not reach.
        reduced: what came out.
        exchange: how they were exchanged.
    """
    exchanges = rank_state.here().part(Exchanges)
    if not same_batches.compares(exchange) or exchanges.looked == same_batches.FIRST_BATCHES:
        return
    pairs = [(a, b) for a, b in zip(own, reduced, strict=True) if a is not None and "float" in str(a.dtype)]
    if not pairs:
        return
    tolerance = same_batches.tolerance(exchange)
    # Two suffice.
    chosen = [(_array(a), _array(b)) for a, b in (pairs[0], *pairs[1:][-1:])]
    alike = all(_are_alike(a, b, tolerance) for a, b in chosen) and any(np.linalg.norm(a) > 0.0 for a, _ in chosen)
    exchanges.looked += 1
    exchanges.same += alike and not _is_of_alike_inputs(chosen[0][0])
    if exchanges.same == same_batches.FIRST_BATCHES:
        ranks = exchange.process_set.size()
        print(same_batches.warning(range(ranks), ranks, same_batches.LOOP), file=sys.stderr)


def _array(gradient: Any) -> Any:
    return ops.array(gradient).astype(np.float32)


def _are_alike(own: Any, average: Any, tolerance: float) -> bool:
    return bool(np.linalg.norm(own - average) <= tolerance * np.linalg.norm(own))


def _is_of_alike_inputs(gradient: Any) -> bool:
    """Return whether all inputs of a layer of this gradient had one value, as of an array of ones."""
    if gradient.ndim < 2:
        return False
    rows = gradient.reshape(-1, gradient.shape[-1])
    return len(rows) > 1 and bool((rows == rows[:1]).all())
