"""What is changed, told before it begins.

Runs on: every rank; rank 0 prints it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.auto_options import NONE
from jupyter_ddl.training.learning_rate import inner

if TYPE_CHECKING:
    from jupyter_ddl.training.auto.rate import Scaling

_told = ""


def begin() -> None:
    """Forget what was printed: it was for the last cell."""
    global _told
    _told = ""


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
        self._rows["optimizer"] = f"{inner(optimizer).__class__.__name__} -> distributed"

    def data(self, samples: int | None, how: str) -> None:
        """Tell how the data are divided."""
        if samples is None:
            self._rows["data"] = how
        else:
            self._rows["data"] = f"{samples:,} -> {-(-samples // self.size):,} a rank{how and f', {how}'}"

    def batch(self, own: int | None, whole: int | None) -> None:
        """Tell how large the batches are."""
        if own is not None:
            self._rows["batch"] = f"{own:,} a rank, {whole:,} in all" if whole is not None else f"{own:,} a rank"

    def steps(self, before: int, now: int) -> None:
        """Tell how many steps an epoch has, where the program counts them."""
        if before != now:
            self._rows["steps"] = f"{before:,} -> {now:,} an epoch"

    def rate(self, optimizer: Any, scaling: Scaling) -> None:
        """Tell what becomes of the learning rate."""
        if scaling.how == NONE:
            return
        own = inner(optimizer)._learning_rate
        warmup = f" over {_short(scaling.warmup_epochs)} warm-up epochs" if scaling.warmup_epochs else ""
        if isinstance(own, keras.Variable):
            first = float(own.numpy())
            change = f"{_short(first)} -> {_short(first * scaling.factor)} ({scaling.how})"
        else:
            change = f"{type(own).__name__} times {_short(scaling.factor)} ({scaling.how}), by the samples seen"
        self._rows["learning rate"] = f"{change}{warmup}"

    def on_first_rank(self, names: list[str]) -> None:
        """Tell what runs on rank 0 only."""
        self._rows["on rank 0"] = ", ".join([*names, "progress bar and print"])

    def tell(self) -> None:
        """Print the plan, unless it is what was printed last: a program may call `fit` for each epoch."""
        global _told
        if self.text() != _told:
            _told = self.text()
            print(_told, flush=True)

    def text(self) -> str:
        """Return the plan."""
        rows = dict(self._rows)
        if self.seed is not None:
            rows["random seed"] = f"{self.seed} on all ranks"
        lines = [f"  {name:<14} {text}" for name, text in rows.items()]
        return "\n".join([f"Distributed over {self.size} ranks:", *lines])


def _short(number: float) -> str:
    return f"{number:.4g}"
