"""What is changed, told before it begins.

Runs on: every rank; rank 0 prints it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import keras

from jupyter_ddl.protocol import plan_texts
from jupyter_ddl.protocol.cell_options import NONE
from jupyter_ddl.training.optimizer.learning_rate import inner

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.learning_rate_scaling import Scaling


class Printed:
    """What was printed in the cell that runs: the plan, and notes, each once."""

    def __init__(self) -> None:
        self._plan = ""
        self._notes: set[str] = set()

    def begin(self) -> None:
        """Forget what was printed: it was for the last cell."""
        self._plan = ""
        self._notes.clear()

    def note(self, text: str) -> None:
        """Say once in a cell what differs from one process, and was not known before. Rank 0 prints it."""
        if text not in self._notes:
            self._notes.add(text)
            if hvd.rank() == 0:
                print(f"NOTE: {text}", file=sys.stderr, flush=True)

    def plan(self, text: str) -> None:
        """Print a plan, unless it is what was printed last: a program may call `fit` for each epoch."""
        if text != self._plan:
            self._plan = text
            print(text, flush=True)


_printed = Printed()
begin, note = _printed.begin, _printed.note


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

    def optimizer(self, optimizer: Any) -> None:
        """Tell which optimizer is distributed."""
        self._rows["optimizer"] = plan_texts.optimizer(inner(optimizer).__class__.__name__)

    def data(self, samples: int | None, how: str) -> None:
        """Tell how the data are divided."""
        if samples is None:
            self._rows["data"] = how
        else:
            self._rows["data"] = f"{samples:,} -> {-(-samples // self.size):,} a rank{how and f', {how}'}"

    def batch(self, own: int | None, whole: int | None) -> None:
        """Tell how large the batches are."""
        if own is not None:
            self._rows["batch"] = plan_texts.batch(own, whole)

    def steps(self, before: int, now: int) -> None:
        """Tell how many steps an epoch has, where the program counts them."""
        if before != now:
            self._rows["steps"] = plan_texts.steps(before, now)

    def rate(self, optimizer: Any, scaling: Scaling) -> None:
        """Tell what becomes of the learning rate."""
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
        """Tell what differs from one process, by what it is about."""
        self._rows |= lines

    def on_first_rank(self, names: list[str]) -> None:
        """Tell what runs on rank 0 only."""
        self._rows["on rank 0"] = plan_texts.on_first_rank(names)

    def tell(self) -> None:
        """Print the plan, unless it is what was printed last."""
        _printed.plan(self.text())

    def text(self) -> str:
        """Return the plan."""
        rows = dict(self._rows)
        if self.seed is not None:
            rows["random seed"] = f"{self.seed} on all ranks"
        return "\n".join(plan_texts.lines(self.size, rows.items()))
