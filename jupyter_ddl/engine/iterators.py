"""Keeps tf.data iterators from being destroyed where a release has interrupted the cell that reads them.

Destroying an iterator whose pipeline is tuned may wait for TensorFlow's tuning thread: mostly milliseconds, sometimes
seconds, at worst longer than the session waits for a rank. So whoever releases a cell holds its iterators first, and
they are let go in a thread of its own when the cell has ended.
Source: measured with TensorFlow 2.21, loops over `Dataset.range` ended after 0.5 s: up to 17 s, and never with
`options.autotune.enabled = False`.

Runs on: every rank.
"""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any


def alive() -> list[Any]:
    """Return every tf.data iterator of this process; empty where TensorFlow's are not loaded."""
    module = sys.modules.get("tensorflow.python.data.ops.iterator_ops")
    kind = getattr(module, "OwnedIterator", None)
    if kind is None:
        return []
    # By type(): `isinstance` would ask lazy modules for their class, and so import them.
    return [instance for instance in gc.get_objects() if issubclass(type(instance), kind)]


def let_go(held: list[Any]) -> None:
    """Drop what `alive` returned without waiting for TensorFlow. The list is emptied."""
    if held:
        threading.Thread(target=held.clear, name="jupyter_ddl tf.data", daemon=True).start()
