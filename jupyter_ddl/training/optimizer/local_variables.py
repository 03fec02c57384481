"""Holds the variables whose gradients are not exchanged, so that each rank keeps its own.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.training import step
from jupyter_ddl.training.backends import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.training.step import GradientExchange


class LocalVariables:
    """The local variables of one optimizer or tape.

    Args:
        scaled: divide their gradients by the number of ranks, so that they have the size that an average has.
            Source: horovod pull request 3695.
    """

    def __init__(self, *, scaled: bool = True) -> None:
        self._scaled = scaled
        # The variables themselves, so that no other can be made under the id of one that has gone.
        self._variables: dict[int, Any] = {}

    def add(self, variable: Any) -> None:
        """Leave a variable out of the exchange."""
        self._variables[id(variable)] = variable

    def __contains__(self, variable: Any) -> bool:
        return id(variable) in self._variables

    def __bool__(self) -> bool:
        return bool(self._variables)

    def reduce_others(
        self, exchange: GradientExchange, gradients: Sequence[Any], variables: Sequence[Any]
    ) -> list[Any]:
        """Return the gradients: those of local variables as this rank has them, the others reduced over all ranks.

        Collective: every rank must call this, in the same order.
        """
        if not self._variables:
            return exchange.reduce(gradients, variables)
        local = [variable in self for variable in variables]
        shared = [i for i, is_local in enumerate(local) if not is_local]
        reduced = exchange.reduce([gradients[i] for i in shared], [variables[i] for i in shared])
        by_position = dict(zip(shared, reduced, strict=True))
        size = exchange.process_set.size() if self._scaled else 1
        return [by_position[i] if i in by_position else _divided(gradients[i], size) for i in range(len(gradients))]


def reduce_in_step(
    exchange: GradientExchange, local: LocalVariables, gradients: list[Any], variables: list[Any]
) -> list[Any]:
    """Return gradients weighed and reduced over all ranks; those that were reduced in this step stay as they are.

    Collective: every rank must call this, in the same order.
    """
    now = step.current()
    done = [False] * len(variables) if now is None else now.are_exchanged(variables)
    left = [i for i, is_done in enumerate(done) if not is_done]
    if not left:
        return gradients
    weighed = exchange.weighed([gradients[i] for i in left])
    fresh = local.reduce_others(exchange, weighed, [variables[i] for i in left])
    if now is not None:
        now.draw_alike()
    by_position = dict(zip(left, fresh, strict=True))
    return [by_position.get(i, gradient) for i, gradient in enumerate(gradients)]


def reduce_early(now: step.Step, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any] | None:
    """Return gradients, those of trained variables reduced over all ranks, before the program's step uses them.

    Collective, where one is: every rank must call this, in the same order.

    Args:
        now: the step, whose `exchange` reduces.
        gradients: of each variable.
        variables: None for what is not trained. Where none is, the answer is None, too.
    """
    places = [i for i, variable in enumerate(variables) if variable is not None]
    if not places:
        return None
    assert now.exchange is not None
    trained = [variables[i] for i in places]
    # Again even if exchanged in this step: it may be of another loss, or at other weights.
    now.forget_exchanged(trained)
    reduced = reduce_in_step(now.exchange, LocalVariables(), [gradients[i] for i in places], trained)
    now.note_exchanged(trained)
    by_position = dict(zip(places, reduced, strict=True))
    return [by_position.get(i, gradient) for i, gradient in enumerate(gradients)]


def _divided(gradient: Any, divisor: int) -> Any:
    return gradient if gradient is None or divisor == 1 else ops.divided(gradient, divisor)
