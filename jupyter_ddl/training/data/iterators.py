"""Lets tf.data iterators go in a thread of their own, so that nobody waits for TensorFlow to take one down.

Destroying an iterator whose pipeline is tuned may wait for TensorFlow's tuning thread: often a quarter of a second,
sometimes seconds. Keras makes an iterator an epoch, so that the ranks wait for the slowest one's at the end of each;
and a rank that is released in a loop over a dataset answers late.
Source: measured with TensorFlow 2.21: docs/performance.md; it never waits with `options.autotune.enabled = False`.

Runs on: every rank.
"""

from __future__ import annotations

import threading
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator


def install() -> None:
    """Let go of iterators so from here on. Safe to call twice."""
    OwnedIterator.__del__ = _let_go


def _let_go(iterator: Any) -> None:
    parts = iterator.__dict__
    if not isinstance(parts.get("_iterator_resource"), tf.__internal__.EagerTensor):
        # Of a graph that is being traced: nothing runs behind it.
        return
    # Its threads may still call functions that the dataset keeps, so that goes last.
    held = [parts.pop("_iterator_resource"), parts.pop("_dataset", None)]
    try:
        # No daemon: the interpreter must not end under TensorFlow's destructor.
        threading.Thread(target=_drop, args=(held,), name="jupyter_ddl tf.data").start()
    except RuntimeError:
        # The interpreter ends already, and starts no thread: `held` goes here.
        return


def _drop(held: list[Any]) -> None:
    del held[0]
    held.clear()
