"""Notes the first batch of each pass over a tf.data.Dataset, in its graph.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.shards.batch_agreement import BatchAgreement

_BITS = {1: tf.uint8, 2: tf.int16, 4: tf.int32, 8: tf.int64}


def note_pass(agreement: BatchAgreement, order: Any) -> Any:
    """Return the order of a pass over arrays, and note it whole."""
    with tf.control_dependencies([agreement.first.assign(_checksum(order))]):
        return tf.identity(order)


def noting(agreement: BatchAgreement, batches: Any, *, once: bool = False) -> Any:
    """Return a dataset of the same batches that notes the first one of each pass, or with `once` of the first."""

    def note(index: Any, batch: Any) -> Any:
        is_noted = tf.not_equal(agreement.first.read_value(), 0) if once else False
        tf.cond(
            tf.logical_and(tf.equal(index, 0), tf.logical_not(is_noted)),
            lambda: tf.identity(agreement.first.assign(checksum_of(batch))),
            lambda: tf.constant(0, tf.int64),
        )
        return index + 1, batch

    # Parallel operations must keep the order, even if the program does not ask for it: a rank takes by number.
    in_order = tf.data.Options()
    in_order.deterministic = True
    return batches.with_options(in_order).scan(tf.constant(0, tf.int64), note)


def checksum_of(element: Any) -> Any:
    """Return a number for an element of a dataset, of all the tensors that it is made of: an int64 scalar."""
    tensors = [part for part in tf.nest.flatten(element, expand_composites=True) if tf.is_tensor(part)]
    sums = [(i + 1) * _checksum(tensor) for i, tensor in enumerate(tensors) if tensor.dtype != tf.variant]
    return tf.add_n(sums) if sums else tf.zeros([], tf.int64)


def _checksum(tensor: Any) -> Any:
    """Return the sum of the numbers of a tensor's elements, each times its position: an int64 scalar."""
    numbers = _numbers(tf.reshape(tensor, [-1]))
    return tf.reduce_sum(numbers * tf.range(1, tf.size(numbers, tf.int64) + 1))


def _numbers(flat: Any) -> Any:
    """Return a number for each element: a string's hash, a number's bits; one 0 for numbers of more than 64 bits."""
    if flat.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(flat, 2**31 - 1)
    if flat.dtype == tf.bool:
        return tf.cast(flat, tf.int64)
    if flat.dtype.size not in _BITS:
        return tf.zeros([1], tf.int64)
    return tf.cast(tf.bitcast(flat, _BITS[flat.dtype.size]), tf.int64)
