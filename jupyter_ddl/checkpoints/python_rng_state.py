"""Reads and restores the states of Python's and NumPy's random number generators.

Runs on: every rank.
"""

from __future__ import annotations

import random
import sys
from typing import Any


def state() -> dict[str, Any]:
    """Return the states, as JSON can hold them; NumPy's where the process has imported it."""
    version, numbers, gauss = random.getstate()
    states: dict[str, Any] = {"python": [version, list(numbers), gauss]}
    if "numpy" in sys.modules:
        import numpy as np

        drawn: Any = np.random.get_state(legacy=True)
        kind, keys, position, has_gauss, cached = drawn
        states["numpy"] = [kind, keys.tolist(), int(position), int(has_gauss), float(cached)]
    return states


def put_back(states: dict[str, Any]) -> None:
    """Restore states that `state` returned."""
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    if "numpy" in states:
        import numpy as np

        np.random.set_state(tuple(states["numpy"]))
