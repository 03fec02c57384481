"""Reads and restores the states of a rank's random number generators: Python's, NumPy's, TensorFlow's and Keras's.

Runs on: every rank.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR, global_seed_generator
from tensorflow.python.eager import context

from jupyter_ddl.training import seeds


def state() -> dict[str, Any]:
    """Return the states, as JSON can hold them."""
    version, numbers, gauss = random.getstate()
    numpy_state: Any = np.random.get_state(legacy=True)
    kind, keys, position, has_gauss, cached = numpy_state
    seed = context.global_seed()
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [kind, keys.tolist(), int(position), int(has_gauss), float(cached)],
        # Operations draw their seeds from it, where a seed has been set.
        "tensorflow": None if seed is None else [int(seed), _listed(context.context()._rng.getstate())],
        "keras": None if generator is None else generator.state.numpy().tolist(),
        "auto": seeds.ours(),
    }


def put_back(states: dict[str, Any]) -> None:
    """Restore states that `state` returned."""
    if states["tensorflow"] is not None:
        seed, numbers = states["tensorflow"]
        context.set_global_seed(seed)
        context.context()._rng.setstate(_tupled(numbers))
        seeds.take_for_ours(states["auto"])
    if states["keras"] is not None:
        generator = global_seed_generator()
        generator.state.assign(np.array(states["keras"], dtype=generator.state.dtype))
    # Last: making Keras's generator draws from Python's.
    random.setstate(_tupled(states["python"]))
    np.random.set_state(tuple(states["numpy"]))


def _listed(drawn: Any) -> list[Any]:
    version, numbers, gauss = drawn
    return [version, list(numbers), gauss]


def _tupled(listed: Any) -> Any:
    version, numbers, gauss = listed
    return version, tuple(numbers), gauss
