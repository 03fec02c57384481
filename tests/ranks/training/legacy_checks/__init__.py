"""Old spellings, each used as programs use it; `__main__` runs all of them in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

CHECKS: dict[str, Callable[[], object]] = {}
# What must be refused, and the text of the error is the finding.
REFUSALS: dict[str, Callable[[], object]] = {}


def check(row: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Register the check of a row: it asserts what the old spelling means."""

    def register(function: Callable[[], object]) -> Callable[[], object]:
        assert row not in CHECKS
        CHECKS[row] = function
        return function

    return register


def refusal(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Register code that must raise."""

    def register(function: Callable[[], object]) -> Callable[[], object]:
        REFUSALS[name] = function
        return function

    return register


def samples(n: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Return n samples of 4 numbers, of 2 classes."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(n, 4)).astype("float32")
    return x, (x.sum(axis=1) > 0).astype("float32")


def dense(outputs: int = 1, activation: str = "sigmoid") -> keras.Model:
    """Return a small model, the same each time."""
    import keras

    keras.utils.set_random_seed(2)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(outputs, activation)])


def trained(optimizer: object, steps: int = 3, **compiled: object) -> keras.Model:
    """Return a model after some steps."""
    model = dense()
    model.compile(optimizer, "mse", **{"jit_compile": False, **compiled})
    x, y = samples(8 * steps)
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    return model


def reference(optimizer: object) -> keras.Model:
    """Return what `trained` must come to, of an optimizer as Keras 3 spells it; eagerly, for nothing to trace."""
    return trained(optimizer, run_eagerly=True)


def same_weights(one: keras.Model, other: keras.Model) -> bool:
    """Return whether two models hold the same weights."""
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return all(np.allclose(a, b, rtol=1e-6, atol=1e-7) for a, b in pairs)
