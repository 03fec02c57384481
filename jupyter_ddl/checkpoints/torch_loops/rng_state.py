"""Reads and restores the states of a rank's random number generators: Python's, NumPy's and PyTorch's.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import torch

from jupyter_ddl.checkpoints import python_rng_state


def state() -> dict[str, Any]:
    """Return the states, as `torch.load(weights_only=True)` can read them."""
    states = python_rng_state.state() | {"torch": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def put_back(states: dict[str, Any]) -> None:
    """Restore states that `state` returned."""
    python_rng_state.put_back(states)
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
