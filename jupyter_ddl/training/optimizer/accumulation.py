"""Sums gradients of several backward passes on the rank before the exchange (`backward_passes_per_step`).

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.training.backends import ops

if TYPE_CHECKING:
    from collections.abc import Sequence


class Accumulation:
    """The sums of one optimizer. They are no variables of the optimizer's, so no saved model holds them.

    Args:
        passes: backward passes a step, above 1.
        average: divide the sums by `passes`.
    """

    def __init__(self, passes: int, *, average: bool) -> None:
        self._passes = passes
        self._divisor = passes if average else 1
        self._count: Any = None
        self._sums: dict[int, Any] = {}

    def variables_for(self, variables: Sequence[Any]) -> list[Any]:
        """Return what holds the count of passes, and the sums for these variables; made now where it was not yet."""
        return [self._passes_made(), *(self._sum_of(variable) for variable in variables)]

    def add(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Any:
        """Add one pass's gradients; return a scalar bool tensor: whether they are due to be exchanged.

        All ranks make the same number of passes, so it is due on all of them at once.
        """
        count = self._passes_made()
        for gradient, variable in zip(gradients, variables, strict=True):
            if gradient is not None:
                # Slices of several passes would only grow; the sum of them is a tensor.
                self._sum_of(variable).assign_add(ops.densified(gradient))
        count.assign_add(1)
        return ops.equal(count.read_value() % self._passes, 0)

    def take(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the sums, None where the loss does not reach the variable, and reset them."""
        taken: list[Any] = []
        for gradient, variable in zip(gradients, variables, strict=True):
            if gradient is None:
                taken.append(None)
                continue
            total = self._sum_of(variable)
            value = total.read_value()
            total.assign(value * 0)
            taken.append(value / self._divisor)
        return taken

    def _passes_made(self) -> Any:
        if self._count is None:
            self._count = ops.number(0, "int64", "passes")
        return self._count

    def _sum_of(self, variable: Any) -> Any:
        key = id(variable)
        if key not in self._sums:
            self._sums[key] = ops.zeros_for(variable)
        return self._sums[key]
