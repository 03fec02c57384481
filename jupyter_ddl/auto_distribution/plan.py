"""Prints the plan: what `--auto` changes, before the training begins.

Runs on: every rank; rank 0 prints it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.engine import rank_state
from jupyter_ddl.protocol import plan_texts
from jupyter_ddl.protocol.cell_options import NONE
from jupyter_ddl.training.backends import hvd
from jupyter_ddl.training.optimizer.learning_rate import inner

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.learning_rate_scaling import Scaling


class Printed:
    """What was printed in the current cell: the plan, and notes, each once."""

    def __init__(self) -> None:
        self._plan = ""
        self._notes: set[str] = set()

    def begin(self) -> None:
        """Forget what was printed in the last cell."""
        self._plan = ""
        self._notes.clear()

    def note(self, text: str) -> None:
        """Print once in a cell a difference from one process that was not known before, on rank 0."""
        if text not in self._notes:
            self._notes.add(text)
            if hvd.rank() == 0:
                print(f"NOTE: {text}", file=sys.stderr, flush=True)

    def plan(self, text: str) -> None:
        """Print a plan, unless it is the one printed last: a program may call `fit` for each epoch."""
        if text != self._plan:
            self._plan = text
            print(text, flush=True)


def printed() -> Printed:
    """Return what this rank has printed."""
    return rank_state.here().part(Printed)


@dataclass
class Plan:
    """The lines of a plan, by what they are about.

    Attributes:
        size: the number of ranks.
        seed: the random seed that was set on all ranks; None where it is the program's own.
    """

    size: int
    seed: int | None = None
    _rows: dict[str, str] = field(default_factory=dict)

    def asked_by(self, what: str) -> None:
        """Add what has asked for it; nothing where it is `--auto`."""
        if what:
            self._rows["asked for by"] = what

    def optimizer(self, optimizer: Any) -> None:
        """Add which optimizer is distributed."""
        self._rows["optimizer"] = plan_texts.optimizer(inner(optimizer).__class__.__name__)

    def data(self, samples: int | None, how: str) -> None:
        """Add how the data are divided."""
        if samples is None:
            self._rows["data"] = how
        else:
            self._rows["data"] = f"{samples:,} -> {-(-samples // self.size):,} a rank{how and f', {how}'}"

    def batch(self, own: int | None, whole: int | None) -> None:
        """Add how large the batches are."""
        if own is not None:
            self._rows["batch"] = plan_texts.batch(own, whole)

    def steps(self, before: int, now: int) -> None:
        """Add how many steps an epoch has, where the program counts them."""
        if before != now:
            self._rows["steps"] = plan_texts.steps(before, now)

    def rate(self, optimizer: Any, scaling: Scaling) -> None:
        """Add how the learning rate changes."""
        if scaling.how == NONE:
            return
        own = inner(optimizer)._learning_rate
        warmup = plan_texts.warmup(plan_texts.short(scaling.warmup_epochs))
        if isinstance(own, keras.Variable):
            change = plan_texts.rate(float(own.numpy()), scaling.factor, scaling.how)
        else:
            change = plan_texts.schedule(type(own).__name__, scaling.factor, scaling.how)
        self._rows["learning rate"] = f"{change}{warmup}"

    def differs(self, lines: dict[str, str]) -> None:
        """Add what differs from one process, by subject."""
        self._rows |= lines

    def memory(self, text: str) -> None:
        """Add what `--memory` does."""
        self._rows["memory"] = text

    def on_first_rank(self, names: list[str]) -> None:
        """Add what runs on rank 0 only."""
        self._rows["on rank 0"] = plan_texts.on_first_rank(names)

    def tell(self) -> None:
        """Print the plan, unless it is the one printed last."""
        printed().plan(self.text())

    def text(self) -> str:
        """Return the plan."""
        rows = dict(self._rows)
        if self.seed is not None:
            rows["random seed"] = f"{self.seed} on all ranks"
        return "\n".join(plan_texts.lines(self.size, rows.items()))
