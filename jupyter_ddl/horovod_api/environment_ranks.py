"""Gives this rank and its place, as the environment has them: in the variables that torchrun's programs read.

Runs on: every rank.
"""

from __future__ import annotations

import os

from jupyter_ddl.errors import InvalidInput


def rank() -> int:
    """Return this rank."""
    return _of_environment("RANK")


def size() -> int:
    """Return how many ranks there are."""
    return _of_environment("WORLD_SIZE")


def local_rank() -> int:
    """Return this rank's number on its host."""
    return _of_environment("LOCAL_RANK")


def local_size() -> int:
    """Return how many ranks its host has."""
    return _of_environment("LOCAL_WORLD_SIZE")


def cross_rank() -> int:
    """Return the number of this rank's host."""
    return _of_environment("GROUP_RANK")


def _of_environment(name: str) -> int:
    value = os.environ.get(name)
    if value is None:
        raise InvalidInput(
            "Without Horovod a rank is a process of `%ddl start` or of `jupyter ddl run`.",
            f"no {name} in the environment",
            "Start the program by one of them, or by torchrun.",
        )
    return int(value)
