"""Begins a cell on JAX: its processes, Keras's distribution over all of them, and one seed.

Runs on: every rank.
"""

from __future__ import annotations

import os
import random
import zlib
from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils
from keras.src.utils.rng_utils import get_random_seed

from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.jax_training.sharding import Sharded
from jupyter_ddl.protocol.cell_options import GLOBAL

if TYPE_CHECKING:
    from jupyter_ddl.protocol.cell_options import AutoOptions

_SEEDS = 2**31


class _Auto:
    """What `--auto` has set on this rank.

    Attributes:
        distribution: of the current cell; None in a cell without --auto.
        before: what the program had set.
        tag: a number that all ranks have for the cell, and no other cell.
    """

    def __init__(self) -> None:
        self.distribution: Any = None
        self.before: Any = None
        self.tag = 0


def begin(auto: AutoOptions | None, *, shards: bool = False) -> None:
    """Begin a cell. Collective, where it is to be distributed: every rank must call this.

    Args:
        auto: what `--auto` was given; None in a cell without.
        shards: each rank has its part of the weights, too.

    Raises:
        InvalidInput: JAX was used before its processes began.
    """
    _end()
    if auto is None or world_size() == 1 or auto.batch != GLOBAL:
        # With --batch per-rank each rank has arrays of its own: `auto_distribution`.
        return
    jax.distributed.initialize()
    ours = rank_state.here().part(_Auto)
    ours.before = keras.distribution.distribution()
    # The ranks read the same batches, of which each takes its rows: Keras is to divide nothing.
    ours.distribution = (Sharded if shards else keras.distribution.DataParallel)(auto_shard_dataset=False)
    keras.distribution.set_distribution(ours.distribution)
    _make_alike()


def _end() -> None:
    """Take back the distribution of an earlier cell, whose devices a release may have ended."""
    ours = rank_state.here().part(_Auto)
    if ours.distribution is not None and keras.distribution.distribution() is ours.distribution:
        keras.distribution.set_distribution(ours.before)
    ours.distribution = ours.before = None


def is_auto() -> bool:
    """Return whether `--auto` distributes the current cell, on more than one rank."""
    ours = rank_state.here().part(_Auto)
    return ours.distribution is not None and keras.distribution.distribution() is ours.distribution


def tag_of_cell() -> int:
    """Return the number that all ranks have for a cell with `--auto`."""
    return rank_state.here().part(_Auto).tag


def covers_ranks() -> bool:
    """Return whether Keras's distribution is over the devices of several processes."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return False
    devices = distribution.device_mesh.backend_mesh.devices.flat
    return len({device.process_index for device in devices}) > 1


def world_size() -> int:
    """Return how many ranks there are, as the environment of torchrun's programs has it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_alone() -> bool:
    """Return whether each rank may train a model of its own: it is the only one, or the cell says so."""
    return world_size() == 1 or run_context.options().independent


def gathered(value: Any) -> Any:
    """Return an array with a row for each rank: a small array of NumPy's from each. Collective."""
    return multihost_utils.process_allgather(np.atleast_1d(value))


def _sum_of_numpy() -> int:
    """Return a number of the state from which NumPy draws, as shuffles do."""
    state = np.random.get_state(legacy=False)
    assert isinstance(state, dict)
    return zlib.crc32(state["state"]["key"].tobytes(), int(state["state"]["pos"])) % _SEEDS


def _make_alike() -> None:
    """Give all ranks rank 0's seed, unless the program has set the same one in an earlier cell."""
    own = get_random_seed()
    drawn = random.SystemRandom().randrange(_SEEDS)
    every = gathered(np.array([own is not None, (own or 0) % _SEEDS, drawn, _sum_of_numpy()]))
    first = every[0]
    rank_state.here().part(_Auto).tag = int(first[2])
    if not first[0] or (every[:, (0, 1, 3)] != first[[0, 1, 3]]).any():
        keras.utils.set_random_seed(int(first[2]))
