"""Takes arrays of TensorFlow apart, and joins them: `interface.Arrays`. Runs on: every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import convert_to_np_if_not_ragged, potentially_ragged_concat

if TYPE_CHECKING:
    from collections.abc import Sequence


def dense_parts(value: Any) -> list[Any] | None:
    """Return the dense tensors that a ragged or sparse tensor is made of; None for any other value."""
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        return list(tf.nest.flatten(value, expand_composites=True))
    return None


def gathered(tensor: Any, numbers: Any) -> Any:
    """Return some rows of a tensor."""
    return tf.gather(tensor, numbers)


def rows_of_sparse(part: Any, start: Any, stop: Any) -> Any:
    """Return rows of a sparse tensor; None for any other value."""
    if not isinstance(part, tf.SparseTensor):
        return None
    rows = tf.cast(stop - start, tf.int64)
    begin = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(part.dense_shape[1:])], axis=0)
    cut = tf.sparse.slice(part, begin, tf.concat([[rows], part.dense_shape[1:]], axis=0))
    if part.shape.rank is None:
        return cut
    # The slice loses the number of columns, which a layer needs before the graph runs.
    columns = [part.dense_shape[i] if size is None else size for i, size in enumerate(part.shape) if i]
    return tf.SparseTensor(cut.indices, cut.values, tf.stack([rows, *(tf.cast(each, tf.int64) for each in columns)]))


def portable(part: Any) -> Any:
    """Return arrays for a tensor, which cannot be pickled."""
    if isinstance(part, (tf.RaggedTensor, tf.SparseTensor)):
        spec = tf.type_spec_from_value(part)
        return spec, [each.numpy() for each in tf.nest.flatten(part, expand_composites=True)]
    return None, [np.asarray(part)]


def from_portable(portable: Any) -> Any:
    """Return the tensor of what `portable` returned."""
    spec, arrays = portable
    tensors = [tf.convert_to_tensor(array) for array in arrays]
    return tensors[0] if spec is None else tf.nest.pack_sequence_as(spec, tensors, expand_composites=True)


def joined(parts: Sequence[Any]) -> Any:
    """Return the rows of several tensors, as Keras's `predict` joins its batches."""
    return convert_to_np_if_not_ragged(potentially_ragged_concat(parts))
