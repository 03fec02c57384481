"""Keeps the last batch of a model's training, which a rank takes again, without weight, once it has none left.

Runs on: every rank.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


class KeptBatch:
    """The last batch, of whichever kind: with sample weights or without, of other types or structures."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        with tf.init_scope():
            # Which of these the last batch was of; -1 before the first.
            self._kind = tf.Variable(-1, dtype=tf.int64, trainable=False, name="kind")

    def keep(self, data: Any) -> None:
        """Keep a batch, in a step that TensorFlow traces or runs eagerly. A reference, not a copy."""
        parts = tf.nest.flatten(data, expand_composites=True)
        kind = next((i for i, kept in enumerate(self._kept) if kept.fits(data, parts)), len(self._kept))
        if kind == len(self._kept):
            self._kept.append(_Kept(data, _holders(parts)))
        self._kind.assign(kind)
        for holder, part in zip(self._kept[kind].holders, parts, strict=True):
            if holder is not None:
                holder.assign(part)

    def free_others(self) -> None:
        """Free the batches of all kinds but the last one's; the variables stay, since traces hold them."""
        last = int(self._kind.numpy())
        for holder in (one for kind, kept in enumerate(self._kept) if kind != last for one in kept.holders):
            if holder is not None:
                holder.assign(_empty(holder.shape, holder.dtype))

    @property
    def batch(self) -> Any:
        """The last batch that was kept; None where there was none."""
        kind = int(self._kind.numpy())
        return None if kind < 0 else self._kept[kind].batch


@dataclass(frozen=True)
class _Kept:
    """The last batch of one kind: a structure, and the variables that hold its tensors."""

    structure: Any
    holders: list[Any]

    def fits(self, data: Any, parts: list[Any]) -> bool:
        """Return whether the variables can hold a batch, whose tensors are `parts`."""
        try:
            tf.nest.assert_same_structure(self.structure, data, expand_composites=True)
        except (TypeError, ValueError):
            return False
        return all(map(_can_hold, self.holders, parts))

    @property
    def batch(self) -> Any:
        parts = [None if holder is None else holder.read_value() for holder in self.holders]
        return tf.nest.pack_sequence_as(self.structure, parts, expand_composites=True)


def _can_hold(holder: Any, part: Any) -> bool:
    if holder is None or part is None:
        return holder is part
    return bool(holder.dtype == _dtype(part) and holder.shape.rank == part.shape.rank)


def _dtype(part: Any) -> Any:
    return part.dtype if hasattr(part, "dtype") else tf.convert_to_tensor(part).dtype


def _holders(parts: list[Any]) -> list[Any]:
    """Return for each part a variable that holds tensors like it; None for what is no tensor.

    A thread of their own makes them: a tf.function refuses new variables in each trace but its first, also in
    tf.init_scope, and a model may be trained with another kind of batches later.

    Source: tensorflow 2.21, python/eager/polymorphic_function/polymorphic_function.py, invalid_creator_scope
    """
    alike = [None if part is None else (part.shape, _dtype(part)) for part in parts]
    with ThreadPoolExecutor(1) as thread:
        return list(thread.map(lambda of: None if of is None else _holder(*of), alike))


def _empty(shape: Any, dtype: Any) -> Any:
    return tf.zeros([0] * len(shape), dtype)


def _holder(shape: Any, dtype: Any) -> Any:
    any_size = tf.TensorShape(None) if shape.rank is None else tf.TensorShape([None] * shape.rank)
    return tf.Variable(_empty(shape, dtype), shape=any_size, trainable=False, name="last_batch")
