"""Finds which Keras a program gets, without importing it."""

from __future__ import annotations

import os
from importlib import metadata
from importlib.util import find_spec


def uses_keras_3() -> bool:
    """Return whether `tf.keras` and `keras` are Keras 3 or newer, without importing them."""
    if asks_for_keras_2():
        return False
    try:
        version = metadata.version("keras")
    except metadata.PackageNotFoundError:
        return False
    return int(version.partition(".")[0]) >= 3


def is_missing() -> bool:
    """Return whether no Keras is installed, nor asked for."""
    return not asks_for_keras_2() and find_spec("keras") is None


def asks_for_keras_2() -> bool:
    """Return whether the environment makes `tf.keras` Keras 2."""
    return os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
