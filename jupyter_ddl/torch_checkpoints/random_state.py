"""Reads and restores the states of a rank's random number generators: Python's, NumPy's and PyTorch's.

Runs on: every rank.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def state() -> dict[str, Any]:
    """Return the states, as `torch.load(weights_only=True)` can read them."""
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        import numpy as np

        drawn: Any = np.random.get_state(legacy=True)
        kind, keys, position, has_gauss, cached = drawn
        states["numpy"] = (kind, keys.tolist(), int(position), int(has_gauss), float(cached))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def put_back(states: dict[str, Any]) -> None:
    """Restore states that `state` returned."""
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if "numpy" in states:
        import numpy as np

        np.random.set_state(states["numpy"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
