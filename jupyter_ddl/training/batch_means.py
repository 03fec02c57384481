"""Weighs means of one number a batch: the number of a part of a batch counts as that part of one.

Keras counts each batch once, whatever its size, where a metric is given one number for it: the losses of several
outputs, a tracker in a `train_step`, a metric function that returns a scalar. Unweighed, a part would count as much.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import step
from jupyter_ddl.training.backends import ops
from jupyter_ddl.training.unconverted import unconverted_around

if TYPE_CHECKING:
    from collections.abc import Callable


def install() -> None:
    """Wrap the update of a mean. Safe to call twice."""
    patch(keras.metrics.Mean, "update_state", _update_state, Layer.FIT, unconverted_around)


def _update_state(
    stock: Callable[..., Any], self: Any, values: Any, sample_weight: Any = None, *args: Any, **kwargs: Any
) -> Any:
    now = step.current()
    is_part = now is not None and now.exchange is not None and now.manner.whole_batches
    if is_part and _counts_batches(sample_weight) and keras.ops.ndim(values) == 0:
        assert now is not None
        sample_weight = _part(now)
    return stock(self, values, sample_weight, *args, **kwargs)


def _counts_batches(sample_weight: Any) -> bool:
    """Return whether all batches have the same weight in one process.

    For the losses of several outputs Keras passes the batch's size as far as the graph knows it: that of all batches,
    or none. Eagerly it is each batch's own. Source: keras 3.15, src/trainers/compile_utils.py, CompileLoss.call
    """
    return sample_weight is None or (isinstance(sample_weight, int) and not ops.runs_at_once())


def _part(now: step.Step) -> Any:
    """Return which part of the batch this rank has: a scalar, whose sum over the ranks is 1."""
    assert now.exchange is not None
    process_set = now.exchange.process_set
    return ops.cast(now.share(process_set) / ops.cast(process_set.size(), "float64"), "float32")
