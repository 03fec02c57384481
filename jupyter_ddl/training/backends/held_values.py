"""Answers for backends whose variables hold their values while a step runs: TensorFlow and PyTorch.

On JAX a step is a function of its state, and a step that was cut off may have taken a variable's value with it.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager


def is_functional() -> bool:
    """Return False."""
    return False


def unchanged_unless(condition: Any) -> AbstractContextManager[None]:  # noqa: ARG001 (JAX's)
    """Return an empty context: the optimizer asks by itself whether to update."""
    return nullcontext()


def whole_on_first_rank(variables: Sequence[Any]) -> AbstractContextManager[None]:  # noqa: ARG001 (JAX's)
    """Return an empty context: each rank has all of a variable."""
    return nullcontext()


def is_one_program() -> bool:
    """Return False."""
    return False


def can_be_read(optimizer: Any) -> bool:  # noqa: ARG001 (JAX's)
    """Return True."""
    return True


def take_step(model: Any, batch: Any) -> None:
    """Take a step of a model's training outside of Keras's loop."""
    model.train_function([batch])
