"""Reads only this rank's rows of arrays in batches.

An array that is mapped from a file stays there: Keras itself would first make a tensor of the whole, one copy a rank on
a host. An array in this process's memory becomes a tensor, as in Keras: TensorFlow gathers rows faster than Python,
which has the steps to call meanwhile.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf


def can_read_rows(inputs: Any) -> bool:
    """Return whether each part of the inputs is an array whose rows can be read alone, as numbers."""
    return all(part is None or _is_readable(part) for part in tf.nest.flatten(inputs))


def dataset(inputs: Any, batches: Any) -> Any:
    """Return a tf.data.Dataset of the rows of some batches.

    Args:
        inputs: a structure of arrays, as Keras's adapter of arrays holds it.
        batches: a dataset of row numbers.
    """
    arrays = [part for part in tf.nest.flatten(inputs) if part is not None]
    kinds = [_spec(array) for array in arrays]
    is_mapped = [getattr(array, "_mmap", None) is not None for array in arrays]
    held = tuple(
        _tensor(array, kind) for array, kind, on_disk in zip(arrays, kinds, is_mapped, strict=True) if not on_disk
    )

    def rows(numbers: Any, held: tuple[Any, ...]) -> Any:
        waiting = iter(held)
        found = iter(
            [
                _read(array, numbers, kind) if on_disk else tf.gather(next(waiting), numbers)
                for array, kind, on_disk in zip(arrays, kinds, is_mapped, strict=True)
            ]
        )
        flat = [None if part is None else next(found) for part in tf.nest.flatten(inputs)]
        return _as_tuples(tf.nest.pack_sequence_as(inputs, flat))

    # tf.data has no dataset of no tensors: all arrays may be mapped.
    with_held = tf.data.Dataset.zip((batches, tf.data.Dataset.from_tensors((0, *held)).repeat()))
    made = with_held.map(lambda numbers, held: rows(numbers, held[1:]), num_parallel_calls=tf.data.AUTOTUNE)
    return made.prefetch(tf.data.AUTOTUNE)


def _is_readable(part: Any) -> bool:
    if hasattr(part, "iloc"):
        return bool(np.asarray(part.iloc[:0]).dtype.kind in "biufc")
    if isinstance(part, np.ndarray):
        return part.dtype.kind in "biufc"
    return isinstance(part, tf.Tensor) and part.dtype != tf.string


def _spec(array: Any) -> Any:
    """Return the dtype and shape of a batch. Floating point becomes Keras's default, as in Keras."""
    first = _as_numpy(array[:0] if not hasattr(array, "iloc") else array.iloc[:0])
    dtype = keras.config.floatx() if first.dtype.kind == "f" else first.dtype
    return tf.TensorSpec((None, *first.shape[1:]), dtype)


def _tensor(array: Any, kind: Any) -> Any:
    if isinstance(array, tf.Tensor):
        return tf.cast(array, kind.dtype)
    return tf.convert_to_tensor(_as_numpy(array).astype(kind.dtype.as_numpy_dtype, copy=False))


def _read(array: Any, numbers: Any, kind: Any) -> Any:
    """Return rows of an array that is mapped from a file, read when the graph runs."""

    def read(chosen: Any) -> Any:
        return np.asarray(array[chosen]).astype(kind.dtype.as_numpy_dtype, copy=False)

    found = tf.numpy_function(read, [numbers], kind.dtype, stateful=False)
    found.set_shape(kind.shape)
    return found


def _as_numpy(rows: Any) -> Any:
    if not hasattr(rows, "iloc"):
        return np.asarray(rows)
    # A column is a feature of its own. Source: keras 3.15, array_slicing.py, PandasSeriesSliceable
    return np.asarray(rows)[:, np.newaxis] if rows.ndim == 1 else np.asarray(rows)


def _as_tuples(structure: Any) -> Any:
    """Return a structure whose lists are tuples: tf.data treats a list as a tensor."""
    if isinstance(structure, (list, tuple)):
        return tuple(_as_tuples(part) for part in structure)
    if isinstance(structure, dict):
        return {name: _as_tuples(part) for name, part in structure.items()}
    return structure
