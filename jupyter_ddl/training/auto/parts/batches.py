"""Batches of which this rank's part is kept, whatever makes them: a dataset, a PyDataset, a generator.

Each rank makes the whole batch, so that its order and its random changes are those of one process.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from jupyter_ddl.training.auto.parts.place import Place

_TOO_SMALL = (
    "Each batch but the last must have at least one sample for each rank. Make the batches larger, use --batch "
    "per-rank, or fewer ranks."
)


def dataset(batches: Any, place: Place) -> Any:
    """Return a tf.data.Dataset of this rank's part of each batch; a batch that has none for it is left out."""
    kept = _divided(batches, place).filter(lambda *batch: _count(first_of(batch)) > 0)
    return kept.prefetch(tf.data.AUTOTUNE)


def dataset_in_step(batches: Any, place: Place, *, is_endless: bool) -> Any:
    """Return a tf.data.Dataset of this rank's part of each batch, for training.

    A last batch that has none for this rank is left out. One in the middle would put the ranks out of step: an error.

    Args:
        batches: a dataset of one process's batches.
        place: which part is this rank's.
        is_endless: it repeats, and steps are counted, so that no batch is the last.
    """

    def keep(has_ended: Any, *batch: Any) -> Any:
        count = _count(first_of(batch))
        is_fine = (count > 0) if is_endless else tf.logical_not(tf.logical_and(has_ended, count > 0))
        with tf.control_dependencies([tf.debugging.Assert(is_fine, [_TOO_SMALL])]):
            is_empty = tf.identity(count <= 0)
        return is_empty, (is_empty, as_made(batch))

    told = _divided(batches, place).scan(tf.constant(False), keep)
    kept = told.filter(lambda is_empty, _: tf.logical_not(is_empty)).map(lambda _, structure: structure)
    return kept.prefetch(tf.data.AUTOTUNE)


def _divided(batches: Any, place: Place) -> Any:
    """Return a dataset of this rank's part of each batch, an empty one where it has none."""

    def part(*batch: Any) -> Any:
        first = first_of(batch)
        fixed = first.shape[0] if isinstance(first, tf.Tensor) and first.shape.rank else None
        start, stop = place.bounds(fixed) if fixed is not None else place.tensor_bounds(_count(first))
        return tf.nest.map_structure(lambda whole: _slice(whole, start, stop), as_made(batch))

    return batches.map(part, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def as_made(batch: tuple[Any, ...]) -> Any:
    """Return a batch as it was made: tf.data passes a tuple's parts one by one."""
    return batch[0] if len(batch) == 1 else batch


def first_of(batch: tuple[Any, ...], *, expands: bool = False) -> Any:
    """Return the first tensor of a batch: of a ragged or sparse one, where that `expands`, the first it is made of."""
    return next(part for part in tf.nest.flatten(batch, expand_composites=expands) if part is not None)


def _count(part: Any) -> Any:
    if isinstance(part, tf.RaggedTensor):
        return part.nrows()
    return part.dense_shape[0] if isinstance(part, tf.SparseTensor) else tf.shape(part)[0]


def _slice(whole: Any, start: Any, stop: Any) -> Any:
    if whole is None or not isinstance(whole, tf.SparseTensor):
        return None if whole is None else whole[start:stop]
    begin = tf.concat([[start], tf.zeros_like(whole.dense_shape[1:])], axis=0)
    size = tf.concat([[stop - start], whole.dense_shape[1:]], axis=0)
    return tf.sparse.slice(whole, begin, size)
