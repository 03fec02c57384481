"""Slices rows of a batch or of arrays, of any type.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def sliced(part: Any, start: Any, stop: Any) -> Any:
    """Return the rows from `start` to `stop` of an array, a frame, a tensor, or a ragged or sparse one.

    Args:
        part: what has rows.
        start: int, or a scalar tensor.
        stop: likewise, behind the last row.
    """
    if hasattr(part, "iloc"):
        return part.iloc[start:stop]
    if isinstance(part, tf.SparseTensor):
        return _sliced_sparse(part, start, stop)
    return (part.tocsr() if hasattr(part, "tocsr") else part)[start:stop]


def count_of(part: Any) -> Any:
    """Return the number of rows of a tensor, or of a ragged or sparse one: a scalar integer tensor."""
    if isinstance(part, tf.RaggedTensor):
        return part.nrows()
    return part.dense_shape[0] if isinstance(part, tf.SparseTensor) else tf.shape(part)[0]


def _sliced_sparse(part: Any, start: Any, stop: Any) -> Any:
    rows = tf.cast(stop - start, tf.int64)
    begin = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(part.dense_shape[1:])], axis=0)
    cut = tf.sparse.slice(part, begin, tf.concat([[rows], part.dense_shape[1:]], axis=0))
    if part.shape.rank is None:
        return cut
    # The slice loses the number of columns, which a layer needs before the graph runs.
    columns = [part.dense_shape[i] if size is None else size for i, size in enumerate(part.shape) if i]
    return tf.SparseTensor(cut.indices, cut.values, tf.stack([rows, *(tf.cast(each, tf.int64) for each in columns)]))
