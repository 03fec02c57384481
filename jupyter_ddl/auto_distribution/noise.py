"""Makes a training step draw each rank's own random numbers for its samples, and the same ones for the gradients.

All ranks have the same random states, so that they shuffle alike. In a step they would draw the same noise for
different samples: N ranks, N times the same. So the seeds of a step's draws are changed by the rank, and the states
stay
alike: all ranks make the same steps, and draw as often. Rank 0 draws as one process.

After the exchange of gradients nothing is changed: noise for the gradients of all must be alike on all ranks.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from jupyter_ddl.engine import rank_state
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import seeds
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, TORCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STRIDE = 1_000_003
# What is added to a seed. None: the ranks draw alike.
_added: ContextVar[int | None] = ContextVar("what is added to the seeds of a training step", default=None)


@dataclass(frozen=True)
class StepNoise:
    """The random numbers of a rank's training steps.

    Attributes:
        rank: this one.
    """

    rank: int

    @contextmanager
    def running(self) -> Iterator[None]:
        """Draw as steps do within the context: at first each rank its own numbers."""
        token = _added.set(self.rank * _STRIDE or None)
        draws = _draws()
        draws.enter(self.rank)
        try:
            yield
        finally:
            draws.leave()
            _added.reset(token)

    def apart(self) -> None:
        """Draw each rank's own numbers from here on."""
        _added.set(self.rank * _STRIDE or None)
        _draws().apart()

    def alike(self) -> None:
        """Draw alike on all ranks from here on."""
        _added.set(None)
        _draws().alike()


def install() -> None:
    """Wrap the functions that give seeds to operations and generators. Safe to call twice."""
    patch(keras.random.SeedGenerator, "next", Changed(_for_keras), Layer.AUTO)
    if BACKEND == TENSORFLOW:
        from jupyter_ddl.auto_distribution import tensorflow_noise

        for owner, name, change in tensorflow_noise.SOURCES:
            patch(owner, name, Changed(change), Layer.AUTO)


@dataclass(frozen=True)
class Changed:
    """Changes what a function returns, within a step where the ranks draw apart."""

    change: Callable[..., Any]

    def __call__(self, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what the function does, changed where that is due."""
        found = stock(*args, **kwargs)
        added = _added.get()
        return found if added is None else self.change(added, found, *args)


def _for_keras(added: int, found: Any, generator: Any, *_: Any) -> Any:
    """Change a seed that one of Keras's generators gives, unless its state is this rank's own (`seeds.set_apart`)."""
    if seeds.is_apart(generator):
        return found
    # Both dtypes of seeds, unsigned and signed, wrap around.
    dtype = keras.backend.standardize_dtype(found.dtype)
    return found + keras.ops.convert_to_tensor(np.array([added, 0], dtype=dtype))


class _NoDraws:
    """The random numbers of a backend whose seeds `install` changes: its own states stay alike."""

    def begin(self) -> None:
        """Do nothing."""

    def enter(self, rank: int) -> None:
        """Do nothing."""

    def leave(self) -> None:
        """Do nothing."""

    def apart(self) -> None:
        """Do nothing."""

    def alike(self) -> None:
        """Do nothing."""


def begin_training() -> None:
    """Begin a `fit`, whose steps draw what they would draw in another process."""
    _draws().begin()


def _draws() -> Any:
    """Return what a backend's steps draw from where that is no seed of ours: PyTorch's global generators."""
    if BACKEND != TORCH:
        return _NoDraws()
    from jupyter_ddl.auto_distribution.torch_noise import TorchDraws

    return rank_state.here().part(TorchDraws)
