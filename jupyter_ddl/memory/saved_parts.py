"""Says whether the state of a sharded model is saved in parts, each by its rank, or gathered.

Runs on: every rank. Imports no framework.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_in_parts = ContextVar("_in_parts", default=False)


@contextmanager
def saving_parts() -> Iterator[None]:
    """Have `state_dict` of sharded models and their optimizers give this rank's parts in the block."""
    token = _in_parts.set(True)
    try:
        yield
    finally:
        _in_parts.reset(token)


def parts_are_saved() -> bool:
    """Return whether `state_dict` gives parts."""
    return _in_parts.get()
