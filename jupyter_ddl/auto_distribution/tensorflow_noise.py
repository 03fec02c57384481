"""Changes the seeds of TensorFlow's own random operations and generators by the rank, for `noise`.

Runs on: every rank, where Keras is on TensorFlow.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import random_seed

_SEEDS = 2**31 - 1


def _for_operation(added: int, found: tuple[int | None, int | None], *_: Any) -> tuple[int | None, int | None]:
    """Change an operation's seeds: of the whole program, and its own."""
    of_program, own = found
    return (None if of_program is None else (of_program + added) % _SEEDS, own)


def _for_generator(added: int, found: tuple[Any, Any], *_: Any) -> tuple[Any, Any]:
    """Change the key of a tf.random.Generator's draw; its state advances as on the other ranks."""
    key, counter = found
    return key + tf.constant(added, key.dtype), counter


# Owner, function, and what changes its result. TensorFlow's operations ask `get_seed` by the module's name.
SOURCES: tuple[tuple[Any, str, Any], ...] = (
    (random_seed, "get_seed", _for_operation),
    (tf.random.Generator, "_prepare_key_counter", _for_generator),
)
