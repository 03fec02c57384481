"""Compares the ranks' batches in the first calls of `train_on_batch` in a cell.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from jupyter_ddl.engine import rank_state
from jupyter_ddl.training.consistency.same_batches import FIRST_BATCHES, LOOP, Batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.training.optimizer.exchange import Exchange


@dataclass
class _Calls:
    """The calls for one model.

    Attributes:
        since: the cell, and which initialisation of Horovod in it: all ranks restart their count at both.
        batches: what they held.
        count: how many there were, while they are compared.
    """

    since: tuple[Any, int]
    batches: Batches
    count: int = 0


_calls: WeakKeyDictionary[Any, _Calls] = WeakKeyDictionary()


def after_call(model: Any, exchange: Exchange, last_batch: Callable[[], Any]) -> None:
    """Note a batch, if it is among the first, and compare after the last of these.

    Collective: every rank of the exchange must call this.
    """
    rank = rank_state.here()
    since = (rank.cells.current, rank.horovod.generation())
    calls = _calls.get(model)
    if calls is None or calls.since != since:
        calls = _calls[model] = _Calls(since, Batches(exchange.process_set, LOOP, are_meant=exchange.same_batches))
    if calls.count == FIRST_BATCHES:
        return
    calls.count += 1
    calls.batches.look(last_batch())
    if calls.count == FIRST_BATCHES:
        calls.batches.compare()
