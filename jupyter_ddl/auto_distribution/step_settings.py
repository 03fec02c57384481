"""Sets how a model's training steps are made under `--auto`.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.auto_distribution.noise import StepNoise
from jupyter_ddl.training.backends import hvd
from jupyter_ddl.training.step_settings import Manner, in_manner

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def steps_of(model: Any, *, whole_batches: bool) -> AbstractContextManager[None]:
    """Return a context in which the steps of a model's training are made as `--auto` wants them.

    Args:
        model: what is trained.
        whole_batches: the ranks' batches are parts of one.
    """
    return in_manner(Manner(whole_batches, has_own_step(model), StepNoise(hvd.rank())))


def has_own_step(model: Any) -> bool:
    """Return whether a model's `train_step` is the program's own."""
    return is_own(type(model).train_step)


def is_own(function: Any) -> bool:
    """Return whether a function or a class is the program's own, and not Keras's."""
    return not str(getattr(function, "__module__", "")).startswith("keras.")
