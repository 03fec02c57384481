"""Runs `train_on_batch` and `test_on_batch` on several ranks: a batch to train on is split among them.

`--batch` has no effect here: the program's own loop decides what a batch is, and all ranks run the same loop. Every
rank tests on the whole batch, so that it computes what one process computes.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import keras

from jupyter_ddl.auto_distribution.callbacks import StartTogether, average_statistics
from jupyter_ddl.auto_distribution.distributed_calls import distribute
from jupyter_ddl.auto_distribution.evaluation import over_all_ranks
from jupyter_ddl.auto_distribution.fit import unscale
from jupyter_ddl.auto_distribution.same_data import parts_of, require_same
from jupyter_ddl.auto_distribution.shards.shard_bounds import Place
from jupyter_ddl.auto_distribution.shards.slices import sliced
from jupyter_ddl.auto_distribution.step_settings import steps_of
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd

_started: WeakSet[Any] = WeakSet()
_DATA = ("x", "y", "sample_weight")
# How much of each array of a batch is read, in every step.
_READ_BYTES = 2**16


def train_on_batch(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """Train on this rank's part of a batch, and return the results over all ranks in Keras's form.

    Collective: every rank must call this.

    Raises:
        InvalidInput: the model cannot be distributed, or the batch cannot be split; the ranks have different batches.
    """
    distribute(model)
    unscale(model.optimizer)
    wants_names = arguments.pop("return_dict", False)
    divided = _divided(arguments, Place(hvd.size(), hvd.rank()))
    start = _start_of(model)
    with steps_of(model, whole_batches=True):
        logs = stock(model, **arguments | divided, return_dict=True)
    if start is not None:
        start.on_train_batch_end(0)
    answer = over_all_ranks(model, logs, wants_names=wants_names)
    # After each step: the program may evaluate or save next.
    average_statistics(model)
    return answer


def test_on_batch(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """Test on the whole batch, and return rank 0's results on every rank.

    Collective: every rank must call this.

    Raises:
        InvalidInput: the ranks have different batches.
    """
    require_same(parts_of(_READ_BYTES, **{name: arguments.get(name) for name in _DATA}), "the batch of test_on_batch")
    # Alike to the last bit, so that the program's decisions by them are alike.
    return hvd.broadcast_object(stock(model, **arguments), 0, name="test_on_batch")


def _start_of(model: Any) -> StartTogether | None:
    """Give all ranks the same weights before a model's first step; if it has none yet, return what does so after it."""
    if model in _started:
        return None
    _started.add(model)
    start = StartTogether()
    start.set_model(model)
    start.on_train_begin()
    return start


def _divided(arguments: dict[str, Any], place: Place) -> dict[str, Any]:
    """Return this rank's part of a batch, by the names of its arguments.

    Raises:
        InvalidInput: the batch is too small, or a part of it is no batch; the ranks have different batches.
    """
    given = {name: arguments.get(name) for name in _DATA}
    flat = [part for part in keras.tree.flatten(list(given.values())) if part is not None]
    counts = [int(part.shape[0]) if getattr(part, "shape", ()) else None for part in flat]
    if len(set(counts)) > 1 or None in counts:
        shapes = " and ".join(str(tuple(getattr(part, "shape", ()))) for part in flat)
        raise InvalidInput(
            "train_on_batch splits each array by its first dimension, the samples.",
            f"arrays of shapes {shapes}",
            "Keep what is no batch (a mask for all samples, an adjacency matrix) in the model, or use fit with --batch "
            "per-rank.",
        )
    require_same(parts_of(_READ_BYTES, **given), "the batch of train_on_batch")
    count = counts[0]
    if count is not None and count < place.size:
        raise InvalidInput(
            "A batch must have at least one sample for each rank.",
            f"train_on_batch with {count}, {place.size} ranks",
            "Pass larger batches, or use fewer ranks.",
        )
    return {
        name: keras.tree.map_structure(
            lambda part: None if part is None else sliced(part, *place.bounds(count or 0)), each
        )
        for name, each in given.items()
    }
