"""Makes a tf.data.Dataset of this rank's part of each batch, or of its whole batches.

Runs on: every rank, where Keras is on TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from jupyter_ddl.auto_distribution.shards import batches, order, rows
from jupyter_ddl.auto_distribution.shards.noted_datasets import note_pass, noting

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.shards.batch_agreement import BatchAgreement
    from jupyter_ddl.auto_distribution.shards.shard_bounds import Place


def of_parts(whole: Any, place: Place, agreement: BatchAgreement, *, is_fresh: bool, is_endless: bool) -> Any:
    """Return a dataset of this rank's part of each batch.

    Args:
        whole: Keras's adapter of the data of one process.
        place: which part is this rank's.
        agreement: notes the first batch of each pass.
        is_fresh: arrays are reshuffled in each pass.
        is_endless: the data repeat, and steps are counted.
    """
    # Keras's shuffle="batch" has an order of its own, batch by batch.
    if isinstance(whole, ArrayDataAdapter) and whole._shuffle != "batch" and rows.can_read_rows(whole._inputs):
        passes = order.fresh_order(whole) if is_fresh else order.keras_order(whole)
        own = order.own_batches(passes, whole, place, whole._num_samples, lambda each: note_pass(agreement, each))
        return rows.dataset(whole._inputs, own)
    return batches.dataset_in_step(noting(agreement, whole.get_tf_dataset()), place, is_endless=is_endless)


def of_shares(whole: Any, place: Place, steps: int | None, total: int | None, agreement: BatchAgreement | None) -> Any:
    """Return a dataset of every Nth whole batch.

    Args:
        whole: Keras's adapter of the data of one process.
        place: whose batches are taken.
        steps: how many batches one process takes; None for all.
        total: how many these are; None where not known.
        agreement: notes the first batch; None for arrays.
    """
    if agreement is None and rows.can_read_rows(whole._inputs):
        assert total is not None
        return rows.dataset(whole._inputs, _row_numbers(whole, place, total))
    made = whole.get_tf_dataset()
    made = made if steps is None else made.take(steps)
    made = made if agreement is None else noting(agreement, made)
    return made.shard(place.size, place.rank).prefetch(tf.data.AUTOTUNE)


def _row_numbers(whole: Any, place: Place, total: int) -> Any:
    """Return a dataset of the row numbers of this rank's batches."""
    size, samples = int(whole.batch_size), int(whole._num_samples)

    def of_batch(index: Any) -> Any:
        numbers = tf.range(index * size, tf.minimum((index + 1) * size, samples))
        # Of a known size where it is, as Keras has it.
        return numbers if samples % size else tf.ensure_shape(numbers, [size])

    return tf.data.Dataset.range(place.rank, total, place.size).map(of_batch)
