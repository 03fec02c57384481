"""Measures steps by the clock of the host, from Python: what `torch_clock` and `jax_clock` have alike.

Runs on: every rank.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl.training.backends.interface import Sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class HostClock:
    """Adds up the steps of one model's train function.

    Attributes:
        origin_s: what times count from; seconds since the epoch.
    """

    def __init__(self) -> None:
        self.origin_s = time.time()
        # One object, so that a reader in another thread gets all of one moment.
        self._sums = Sums()
        self._step: tuple[int, float] | None = None

    def exchange(self, gradients: Sequence[Any], reduce: Callable[[], list[Any]]) -> list[Any]:  # noqa: ARG002
        """Return what `reduce` does."""
        return reduce()

    def wait(self, since: Sequence[Any], until: Sequence[Any]) -> None:
        """Do nothing: `meet` has noted it, where it can be noted."""

    def meet(self, reduce: Callable[[], Any]) -> Any:
        """Return what `reduce` does, as an exchange."""
        return self.exchange((), lambda: [reduce()])[0]

    def read(self) -> Sums:
        """Return the sums."""
        return self._sums

    def _begin(self, samples: int) -> None:
        self._step = samples, time.time() - self.origin_s

    def _end(self, exchange_s: float = 0.0) -> None:
        if self._step is None:
            return
        (samples, at_s), before, self._step = self._step, self._sums, None
        self._sums = Sums(
            before.steps + 1,
            before.samples + samples,
            before.batch_s + at_s,
            before.exchange_s + exchange_s,
            before.squares + samples * samples,
        )


def rows_of_first(parts: Iterable[Any]) -> int:
    """Return the rows of the first part of a batch: 1 for a scalar, 0 where there is none."""
    first = next((part for part in parts if part is not None), None)
    if first is None:
        return 0
    shape: Any = getattr(first, "shape", ())
    return int(shape[0]) if len(shape) else 1
