"""Gives the seed of a program as Keras keeps it, on PyTorch and JAX. Runs on: every rank."""

from __future__ import annotations

from keras.src.backend.common.global_state import set_global_attribute
from keras.src.utils.rng_utils import GLOBAL_RANDOM_SEED, get_random_seed


def seed_of_program() -> int | None:
    """Return the seed of `keras.utils.set_random_seed`; None where none was set."""
    seed: int | None = get_random_seed()
    return seed


def set_seed_of_program(seed: int) -> None:
    """Set the seed; generators keep their states."""
    set_global_attribute(GLOBAL_RANDOM_SEED, seed)
