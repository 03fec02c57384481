"""Orders the rows of arrays as one process trains on them, and finds which are this rank's.

A whole pass is one tensor of row numbers, and this rank's batches are slices of it: no work is done for each batch.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.auto_distribution.shards.shard_bounds import Place


def own_batches(order: Any, whole: Any, place: Place, count: int, note: Callable[[Any], Any]) -> Any:
    """Return a dataset of the row numbers of this rank's batches; a batch that has none for it is left out.

    Args:
        order: a dataset that gives each pass's order: row numbers, int64 of shape (samples,).
        whole: Keras's adapter of the arrays.
        place: which part is this rank's.
        count: how many samples are taken of each pass.
        note: called with each pass's order, which it returns.
    """
    size = int(whole.batch_size)
    full, last = divmod(count, size)

    def of_pass(numbers: Any) -> Any:
        numbers = note(numbers)
        start, stop = place.bounds(size)
        batches = tf.reshape(numbers[: full * size], [full, size])[:, start:stop]
        made = tf.data.Dataset.from_tensor_slices(batches)
        start, stop = place.bounds(last)
        if stop == start:
            return made
        return made.concatenate(tf.data.Dataset.from_tensors(numbers[full * size : count][start:stop]))

    return order.flat_map(of_pass)


def keras_order(whole: Any) -> Any:
    """Return a dataset of each pass's order, as Keras shuffles: where a random seed is set, alike in each pass."""
    count = whole._num_samples
    numbers = np.arange(count, dtype=np.int64)
    return ArrayDataAdapter(numbers, batch_size=count, shuffle=whole._shuffle).get_tf_dataset()


def fresh_order(whole: Any) -> Any:
    """Return a dataset of each pass's order, reshuffled each time, alike on all ranks.

    They are also alike in another run with the same seed, which is drawn from NumPy, whose state the ranks share.
    """
    count = whole._num_samples

    def shuffled(seed: Any) -> Any:
        return tf.random.experimental.stateless_shuffle(tf.range(count, dtype=tf.int64), tf.stack([seed, count]))

    drawn = int(np.random.randint(2**31))
    return tf.data.Dataset.random(seed=drawn, rerandomize_each_iteration=True).take(1).map(shuffled)
