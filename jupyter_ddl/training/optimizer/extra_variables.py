"""Registers variables that belong to an optimizer's state though Keras does not know them.

The factor on the learning rate under `--auto` is one. A checkpoint saves them with the optimizer's own.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Sequence

# The names of those of `--auto`, which only several ranks have.
RATE_FACTOR, WARMUP_EPOCHS = "rate_factor", "warmup_epochs"

_extra: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()


def save_with(optimizer: Any, variables: Sequence[Any]) -> None:
    """Register variables to be saved and restored with the optimizer's own."""
    _extra[optimizer] = list(variables)


def saved_with(optimizer: Any) -> Sequence[Any]:
    """Return the variables that are saved and restored with the optimizer's own."""
    return _extra.get(optimizer, [])
