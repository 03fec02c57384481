"""Provides points on two spirals: data to learn on that every machine has.

Runs on: kernel or every rank. Plain NumPy: TensorFlow is not loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TURNS = 1.5
_NOISE = 0.04


def spirals(n: int = 4096, *, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return points on two spirals that wind around each other, and which of them each is on.

    Args:
        n: how many points; half of them are on each spiral.
        seed: of the noise; every rank gets the same points from the same seed.

    Returns:
        The points, shape (n, 2), about from -1 to 1; and labels, shape (n,), 0 or 1, in random order.

    Example:
        >>> from jupyter_ddl.datasets import spirals
        >>> points, labels = spirals(100)
        >>> points.shape, labels.shape
        ((100, 2), (100,))
    """
    numbers = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    numbers.shuffle(labels)
    radius = np.sqrt(numbers.uniform(0.02, 1, n))
    angle = 2 * np.pi * _TURNS * radius + np.pi * labels
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) + numbers.normal(0, _NOISE, (n, 2))
    return points.astype(np.float32), labels.astype(np.uint8)
