"""Reads and restores the states of a rank's random number generators: Python's, NumPy's, TensorFlow's and Keras's.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import global_seed_generator

from jupyter_ddl.checkpoints import python_rng_state
from jupyter_ddl.training import seeds
from jupyter_ddl.training.backends import ops

# Keras has a name for it from 3.13 on, which Python 3.10 cannot have.
_GENERATOR = "global_seed_generator"


def state() -> dict[str, Any]:
    """Return the states, as JSON can hold them."""
    seed = ops.seed_of_program()
    generator = global_state.get_global_attribute(_GENERATOR)
    return python_rng_state.state() | {
        # Operations draw their seeds from it, where a seed has been set.
        "seed": None if seed is None else [int(seed), ops.seed_state()],
        "keras": None if generator is None else generator.state.numpy().tolist(),
        "auto": seeds.ours(),
    }


def put_back(states: dict[str, Any]) -> None:
    """Restore states that `state` returned."""
    # Of TensorFlow by this name, in checkpoints of earlier versions.
    seeded = states.get("seed", states.get("tensorflow"))
    if seeded is not None:
        ops.set_seed_state(*seeded)
        seeds.take_for_ours(states["auto"])
    if states["keras"] is not None:
        generator = global_seed_generator()
        generator.state.assign(np.array(states["keras"], dtype=generator.state.dtype))
    # Last: making Keras's generator draws from Python's.
    python_rng_state.put_back(states)
