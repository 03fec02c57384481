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
import tensorflow as tf
from tensorflow.python.framework import random_seed

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STRIDE = 1_000_003
_SEEDS = 2**31 - 1
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
        try:
            yield
        finally:
            _added.reset(token)

    def apart(self) -> None:
        """Draw each rank's own numbers from here on."""
        _added.set(self.rank * _STRIDE or None)

    def alike(self) -> None:
        """Draw alike on all ranks from here on."""
        _added.set(None)


def install() -> None:
    """Wrap the functions that give seeds to operations and generators of TensorFlow and Keras. Safe to call twice."""
    # TensorFlow's operations ask it for their seeds, by the module's name.
    patch(random_seed, "get_seed", _Changed(_for_operation), Layer.AUTO)
    patch(tf.random.Generator, "_prepare_key_counter", _Changed(_for_generator), Layer.AUTO)
    patch(keras.random.SeedGenerator, "next", _Changed(_for_keras), Layer.AUTO)


@dataclass(frozen=True)
class _Changed:
    """Changes what a function returns, within a step where the ranks draw apart."""

    change: Callable[..., Any]

    def __call__(self, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = stock(*args, **kwargs)
        added = _added.get()
        return found if added is None else self.change(added, found, *args)


def _for_operation(added: int, found: tuple[int | None, int | None], *_: Any) -> tuple[int | None, int | None]:
    """Change an operation's seeds: of the whole program, and its own."""
    of_program, own = found
    return (None if of_program is None else (of_program + added) % _SEEDS, own)


def _for_generator(added: int, found: tuple[Any, Any], *_: Any) -> tuple[Any, Any]:
    """Change the key of a tf.random.Generator's draw; its state advances as on the other ranks."""
    key, counter = found
    return key + tf.constant(added, key.dtype), counter


def _for_keras(added: int, found: Any, generator: Any, *_: Any) -> Any:
    """Change a seed that one of Keras's generators gives, unless its state is this rank's own (`seeds.set_apart`)."""
    if seeds.is_apart(generator):
        return found
    # Both dtypes of seeds, unsigned and signed, wrap around.
    return found + tf.constant(np.array([added, 0], dtype=tf.as_dtype(found.dtype).as_numpy_dtype))
