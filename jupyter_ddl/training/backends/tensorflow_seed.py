"""Gives the seed of a program as TensorFlow keeps it, and the state that it has come to. Runs on: every rank."""

from __future__ import annotations

from typing import Any

from tensorflow.python.eager import context

from jupyter_ddl.training.backends.interface import RandomState


def seed_of_program() -> int | None:
    """Return TensorFlow's seed; None where none was set."""
    seed: int | None = context.global_seed()
    return seed


def random_states() -> dict[str, RandomState]:
    """Return the state from which operations get their seeds, where one was set."""
    # Source: tensorflow 2.21, python/eager/context.py, _set_global_seed
    generator: Any = context.context()._rng if context.global_seed() is not None else None
    if generator is None:
        return {}
    return {"tensorflow": RandomState(generator.getstate, generator.setstate, generator.seed)}


def seed_state() -> Any:
    """Return the state from which operations get their seeds, as JSON can hold it."""
    version, numbers, gauss = context.context()._rng.getstate()
    return [version, list(numbers), gauss]


def set_seed_state(seed: int, state: Any) -> None:
    """Set the program's seed, and the state that it had come to."""
    version, numbers, gauss = state
    context.set_global_seed(seed)
    context.context()._rng.setstate((version, tuple(numbers), gauss))
