"""Passes what libraries log on this rank to the figures that are shown.

Runs on: every rank.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.meter import numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Logged:
    """What libraries log on this rank.

    Attributes:
        take: takes figures, by name; None where no cell's figures are shown.
    """

    def __init__(self) -> None:
        self.take: Callable[[Mapping[str, Any]], None] | None = None
        self.is_first_rank = False

    def log(self, values: Mapping[str, Any]) -> None:
        """Take figures, where they are shown."""
        if self.take is not None:
            self.take(values)

    def epoch_ended(self, epoch: int, step: int, values: Mapping[str, Any], *, is_last: bool = False) -> None:
        """Report what an epoch came to, validation included: the first rank does."""
        if self.take is not None and self.is_first_rank:
            numbers = numbers_of(values)
            rank_state.here().meter.epochs.ended(epoch, step, time.time(), numbers, is_last=is_last)


def here() -> Logged | None:
    """Return what this rank logs; None in a process that is no rank."""
    state = rank_state.of_process()
    return None if state is None else state.part(Logged)
