"""Sets random states: alike on all ranks where they must be (shuffles, initial weights), otherwise per rank.

Runs on: every rank.
"""

from __future__ import annotations

import hashlib
import pickle
import random
from typing import Any
from weakref import WeakSet

import keras
import numpy as np

from jupyter_ddl.engine import rank_state
from jupyter_ddl.training.backends import hvd, ops

_SEEDS = 2**31
_apart: WeakSet[Any] = WeakSet()


class _Seed:
    """The last seed that was set here. It stays in force in later cells, and does not count as the program's."""

    def __init__(self) -> None:
        self.ours: int | None = None


def _seed() -> _Seed:
    return rank_state.here().part(_Seed)


def make_alike() -> None:
    """Give all ranks alike random states, unless they have them.

    They are alike where earlier cells have set a seed. One process without a seed would draw any numbers; the ranks may
    draw any as well, but the same.

    Collective: every rank must call this.
    """
    seed = int.from_bytes(random.SystemRandom().randbytes(8), "big") % _SEEDS
    everyone = hvd.allgather_object((_fingerprint(), seed), name="random_states")
    states = {state for state, _ in everyone}
    if len(states) == 1 and ops.seed_of_program() is not None:
        return
    _seed().ours = everyone[0][1]
    keras.utils.set_random_seed(everyone[0][1])


def are_programs() -> bool:
    """Return whether the program has set the backend's seed itself."""
    return ops.seed_of_program() not in (None, _seed().ours)


def ours() -> int | None:
    """Return the seed that `make_alike` set, in this cell or in one before; None where it is not in force."""
    return None if are_programs() else _seed().ours


def take_for_ours(seed: int | None) -> None:
    """Treat the seed in force as one that `make_alike` set, if it is this one, restored from an earlier process."""
    _seed().ours = seed


def set_apart(model: Any, rank: int) -> None:
    """Make each rank's layers (dropout, random augmentation) draw their own numbers; rank 0, those of one process."""
    for layer in model._flatten_layers():
        for generator in getattr(layer, "_seed_generators", ()):
            if rank and generator not in _apart:
                _apart.add(generator)
                state = generator.state
                state.assign(state.numpy() + np.array([rank * 1_000_003, 0], dtype=state.numpy().dtype))


def is_apart(generator: Any) -> bool:
    """Return whether a generator's state is this rank's own."""
    return generator in _apart


def _fingerprint() -> str:
    states = (
        random.getstate(),
        np.random.get_state(),
        ops.seed_of_program(),
        {name: state.get() for name, state in ops.random_states().items()},
    )
    return hashlib.sha256(pickle.dumps(states)).hexdigest()
