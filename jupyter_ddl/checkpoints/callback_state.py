"""Saves and restores what Keras's own callbacks count: otherwise EarlyStopping would restart after each resumption.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COUNTED = {
    keras.callbacks.EarlyStopping: ("wait", "stopped_epoch", "best", "best_epoch"),
    keras.callbacks.ReduceLROnPlateau: ("wait", "cooldown_counter", "best"),
    keras.callbacks.ModelCheckpoint: ("best",),
}


def counters_of(callbacks: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return what they have counted, as JSON can hold it."""
    return {
        name: {attribute: _plain(getattr(callback, attribute)) for attribute in attributes}
        for name, callback, attributes in _counting(callbacks)
    }


def best_weights_of(callbacks: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the weights that they keep to restore at the end: arrays, by callback."""
    kept = ((name, getattr(callback, "best_weights", None)) for name, callback, _ in _counting(callbacks))
    return {name: [np.asarray(weight) for weight in weights] for name, weights in kept if weights is not None}


def put_back(callbacks: Sequence[Any], counters: dict[str, dict[str, Any]], best_weights: dict[str, list[Any]]) -> None:
    """Restore their counts; call it after their own `on_train_begin`, which resets them."""
    for name, callback, _ in _counting(callbacks):
        for attribute, value in counters.get(name, {}).items():
            setattr(callback, attribute, value)
        if name in best_weights:
            callback.best_weights = best_weights[name]


def _counting(callbacks: Sequence[Any]) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield those that count, each with a name that it has on all ranks: some are on rank 0 only."""
    seen: dict[type, int] = {}
    for callback in callbacks:
        for kind, attributes in _COUNTED.items():
            if isinstance(callback, kind):
                seen[kind] = seen.get(kind, 0) + 1
                yield f"{kind.__name__}-{seen[kind]}", callback, attributes


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
