"""Reads variables of which each of JAX's processes has its part: `--memory shard-all`, and Keras's ModelParallel.

NumPy cannot read an array of which other processes have parts. The ranks read such a variable together, and each gets
it whole; or rank 0 alone does, for the length of a block, to write it.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.experimental import multihost_utils

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_held: ContextVar[Mapping[int, Any]] = ContextVar("jupyter_ddl_jax_held")


def is_divided(value: Any) -> bool:
    """Return whether a value is an array of which other processes have parts that this one has not."""
    return (
        isinstance(value, jax.Array)
        and not isinstance(value, jax.core.Tracer)
        and not value.is_fully_addressable
        and not value.is_fully_replicated
    )


def whole(value: Any) -> Any:
    """Return an array of all processes as NumPy's. Collective: every rank must call this."""
    return multihost_utils.process_allgather(value, tiled=True)


def as_numpy(stock: Callable[..., Any], variable: Any, dtype: Any = None, copy: Any = None) -> Any:  # noqa: ARG001
    """Return a variable as NumPy's array. Collective where it is divided, but for what the rank holds whole."""
    value = variable.value
    if not is_divided(value):
        return stock(variable, dtype)
    held = _held.get({}).get(id(variable))
    return np.asarray(whole(value) if held is None else held, dtype)


@contextmanager
def whole_on_first_rank(variables: Sequence[Any]) -> Iterator[None]:
    """Have rank 0 hold divided variables whole, in host memory, for the length of the block.

    Collective: every rank must enter the block, with the same variables; what is read in it waits for no other rank.
    """
    held = {}
    for variable in variables:
        value = getattr(variable, "_value", None)
        if is_divided(value):
            # One after the other, so that the other ranks have no more than one of them whole.
            numbers = whole(value)
            if jax.process_index() == 0:
                held[id(variable)] = numbers
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)
