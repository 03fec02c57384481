"""Keeps this rank's part of batches of any origin: a dataset, a PyDataset, a generator.

Each rank makes the whole batch, so that its order and its random changes are those of one process.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from jupyter_ddl.auto_distribution.shards.slices import sliced
from jupyter_ddl.auto_distribution.shards.texts import NO_BATCH, REMEDY, RULE, TOO_SMALL
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.shards.shard_bounds import Place


def dataset_in_step(batches: Any, place: Place, *, is_endless: bool) -> Any:
    """Return a tf.data.Dataset of this rank's part of each batch, for training.

    A last batch without a part for this rank is left out. One in the middle is an error: ranks would be out of step.

    Args:
        batches: a dataset of one process's batches.
        place: which part is this rank's.
        is_endless: it repeats, and steps are counted, so that no batch is the last.
    """

    def keep(has_ended: Any, batch: Any) -> Any:
        count = count_of(first_of(batch))
        is_fine = (count > 0) if is_endless else tf.logical_not(tf.logical_and(has_ended, count > 0))
        with tf.control_dependencies([tf.debugging.Assert(is_fine, [TOO_SMALL])]):
            is_empty = tf.identity(count <= 0)
        return is_empty, (is_empty, batch)

    divided = _divided(batches, place).scan(tf.constant(False), keep)
    kept = divided.filter(lambda is_empty, _: tf.logical_not(is_empty)).map(lambda _, structure: structure)
    return kept.prefetch(tf.data.AUTOTUNE)


def _divided(batches: Any, place: Place) -> Any:
    """Return a dataset of this rank's part of each batch, an empty one where it has none.

    Raises:
        InvalidInput: a part of the batches is no batch.
    """
    require_batches(batches.element_spec)
    # tf.data passes a tuple's parts one by one, also where it has one part, but not those of a named tuple.
    is_tuple = type(batches.element_spec) is tuple

    def part(*batch: Any) -> Any:
        first = first_of(batch)
        fixed = first.shape[0] if isinstance(first, tf.Tensor) and first.shape.rank else None
        start, stop = place.bounds(fixed) if fixed is not None else _bounds_in_graph(place, count_of(first))
        counts = [tf.cast(count_of(each), tf.int64) for each in tf.nest.flatten(batch) if has_rows(each)]
        tf.debugging.Assert(tf.reduce_all(tf.equal(tf.stack(counts), counts[0])), [NO_BATCH, *counts])
        return tf.nest.map_structure(
            lambda whole: sliced(whole, start, stop) if has_rows(whole) else whole, batch if is_tuple else batch[0]
        )

    return batches.map(part, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def count_of(part: Any) -> Any:
    """Return the number of rows of a tensor, or of a ragged or sparse one: a scalar integer tensor."""
    if isinstance(part, tf.RaggedTensor):
        return part.nrows()
    return part.dense_shape[0] if isinstance(part, tf.SparseTensor) else tf.shape(part)[0]


def _bounds_in_graph(place: Place, count: Any) -> tuple[Any, Any]:
    """Return `place.bounds` of a count that is known only when a graph runs: a scalar integer tensor."""
    each, more = count // place.size, count % place.size
    start = place.rank * each + tf.minimum(tf.cast(place.rank, count.dtype), more)
    return start, start + each + tf.cast(place.rank < more, count.dtype)


def require_batches(spec: Any) -> None:
    """Raise where a part of a dataset's elements has not as many rows as the others, or none.

    Args:
        spec: of the elements. Where it leaves a number of rows open, the part is looked at when it comes.

    Raises:
        InvalidInput: it has.
    """
    shapes = [
        tuple(part.shape)
        for part in tf.nest.flatten(spec)
        if getattr(part, "shape", None) is not None and part.shape.rank is not None
    ]
    counts = {shape[0] if shape else "none" for shape in shapes} - {None}
    if len(counts) > 1 or "none" in counts:
        raise InvalidInput(
            RULE,
            f"a batch with parts of shapes {' and '.join(map(_shown, shapes))}",
            REMEDY,
        )


def has_rows(part: Any) -> bool:
    """Return whether a part of a batch is there: Keras makes an empty Optional of a None."""
    return part is not None and not isinstance(part, tf.experimental.Optional)


def first_of(batch: Any) -> Any:
    """Return the first tensor of a batch."""
    return next(part for part in tf.nest.flatten(batch) if has_rows(part))


def _shown(shape: tuple[Any, ...]) -> str:
    return f"({', '.join('?' if size is None else str(size) for size in shape)})"
