"""Warns of layers that promise statistics of all devices: those of tf.distribute, which ranks are not.

Runs on: every rank.
"""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakSet

import keras

from jupyter_ddl.engine import rank_state


class _Warned:
    """The models of which this rank has warned."""

    def __init__(self) -> None:
        self.models = WeakSet[Any]()


def warn_of_unsynchronized(model: Any) -> None:
    """Warn once of a model's layers with `synchronized=True`. Called where its ranks train together."""
    names = [
        layer.name
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization) and layer.synchronized
    ]
    warned = rank_state.here().part(_Warned).models
    if not names or model in warned:
        return
    warned.add(model)
    print(
        f"WARNING: {', '.join(names)}: synchronized=True is for the devices of tf.distribute. A rank normalises with "
        "the statistics of its own part of the batch: give each rank 16 samples and more, or use GroupNormalization.",
        file=sys.stderr,
    )
