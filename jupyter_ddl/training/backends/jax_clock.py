"""Measures when steps of JAX's begin and what they train on. What they wait for each other JAX does not say.

JAX computes in the background: a step counts from when its batch is there to when the next one is requested.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import jax

from jupyter_ddl.training.backends.host_clock import HostClock, rows_of_first
from jupyter_ddl.training.backends.jax_program import register_clock


class JaxClock(HostClock):
    """Measures around the program that a step is."""

    def __init__(self) -> None:
        super().__init__()
        register_clock(self)

    def begins(self, data: Any) -> None:
        """Note that a step begins: its batch is there."""
        self._begin(samples_in(data))

    def ended(self) -> None:
        """Add the step to the sums."""
        self._end()

    def batch_is_there(self, data: Any) -> None:
        """Do nothing: a step that is traced has no time."""

    def step_ends(self) -> None:
        """Do nothing."""


def tensors_in(data: Any) -> list[Any]:
    """Return the arrays that a batch is made of."""
    parts: list[Any] = jax.tree_util.tree_leaves(data)
    return parts


def samples_in(data: Any) -> int:
    """Return the number of samples of a batch: the first dimension of its first part."""
    return rows_of_first(jax.tree_util.tree_leaves(data))
