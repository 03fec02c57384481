"""Finds ranks that train on the same batches in custom loops: each rank's gradients equal the average of all.

Runs on: every rank. Nothing here is a collective.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from jupyter_ddl.engine import rank_state
from jupyter_ddl.training.consistency import same_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.engine.cells import Cell

# A few gradients suffice; each that a branch takes costs time in each step.
_GRADIENTS = 2


class Exchanges:
    """The first exchanges of the cell that runs, outside of Keras's own steps."""

    def __init__(self) -> None:
        # How many were looked at in this cell, and how many of these had gradients as all ranks have them.
        # By its class: tf.Variable is refused while a function is traced for the second time, even in init_scope, as
        # where a program's first step has no exchange.
        # Source: tensorflow 2.21, python/eager/polymorphic_function/polymorphic_function.py, invalid_creator_scope
        with tf.init_scope(), tf.device("CPU:0"):
            self.looked = ResourceVariable(0, dtype=tf.int32, trainable=False, name="exchanges_looked_at")
            self.same = ResourceVariable(0, dtype=tf.int32, trainable=False, name="exchanges_alike")

    def begin_cell(self) -> None:
        """Begin to compare again."""
        self.looked.assign(0)
        self.same.assign(0)

    def look(self, own: Sequence[Any], reduced: Sequence[Any], *, tolerance: float, ranks: int) -> None:
        """Compare this rank's gradients with the average, in the first exchanges of a cell."""
        data = _data_of_the_graph()

        def compared() -> Any:
            alike = tf.reduce_all([_are_alike(a, b, tolerance) for a, b in zip(own, reduced, strict=True)])
            alike &= tf.reduce_any([_has_a_gradient(gradient) for gradient in own])
            alike &= _varies(data) if data is not None else ~_is_of_alike_inputs(own[0])
            looked = self.looked.assign_add(1)
            same = self.same.assign_add(tf.cast(alike, tf.int32))
            is_printed = (looked == same_batches.FIRST_BATCHES) & (same == looked)
            return tf.cond(is_printed, lambda: _print_hint(ranks), lambda: tf.constant(False))

        tf.cond(self.looked < same_batches.FIRST_BATCHES, compared, lambda: tf.constant(False))


class _OfThisRank:
    """The exchanges of this rank, once there is one to look at."""

    def __init__(self) -> None:
        self.exchanges: Exchanges | None = None


def begin_cell(_cell: Cell) -> None:
    """Compare the first exchanges again."""
    exchanges = rank_state.here().part(_OfThisRank).exchanges
    if exchanges is not None:
        exchanges.begin_cell()


def look(own: Sequence[Any], reduced: Sequence[Any], exchange: Any) -> None:
    """Warn, once in a cell and on one rank, where this rank's gradients equal the average of all ranks.

    Args:
        own: this rank's gradients, as they went into the exchange; None for a variable that the loss does not reach.
        reduced: what came out.
        exchange: how they were exchanged.
    """
    if not same_batches.compares(exchange):
        return
    pairs = [(a, b) for a, b in zip(own, reduced, strict=True) if tf.is_tensor(a) and a.dtype.is_floating]
    if not pairs:
        return
    here = rank_state.here().part(_OfThisRank)
    if here.exchanges is None:
        here.exchanges = Exchanges()
    chosen = [pairs[0], *pairs[1:][-(_GRADIENTS - 1) :]]
    here.exchanges.look(
        [a for a, _ in chosen],
        [b for _, b in chosen],
        tolerance=same_batches.tolerance(exchange),
        ranks=exchange.process_set.size(),
    )


def _print_hint(ranks: int) -> Any:
    tf.print(same_batches.warning(range(ranks), ranks, same_batches.LOOP), output_stream=sys.stderr)
    return tf.constant(True)


def _are_alike(own: Any, average: Any, tolerance: float) -> Any:
    if isinstance(average, tf.IndexedSlices):
        return tf.constant(False)
    own, average = tf.cast(own, tf.float32), tf.cast(average, tf.float32)
    return tf.norm(own - average) <= tolerance * tf.norm(own)


def _has_a_gradient(own: Any) -> Any:
    return tf.norm(tf.cast(own, tf.float32)) > 0.0


def _varies(data: Any) -> Any:
    """Return whether the samples of a batch differ: constant data are the same on each rank, whatever it reads."""
    return tf.reduce_any(data != data[:1])


def _is_of_alike_inputs(gradient: Any) -> Any:
    """Return whether all inputs of a layer of this gradient had one value, as of an array of ones."""
    if gradient.shape.rank is None or gradient.shape.rank < 2:
        return tf.constant(False)
    rows = tf.reshape(gradient, [-1, tf.shape(gradient)[-1]])
    return (tf.shape(rows)[0] > 1) & tf.reduce_all(rows == rows[:1])


def _data_of_the_graph() -> Any:
    """Return the batch that a tf.function is called with, by its first argument that has samples; None if none has."""
    if tf.executing_eagerly():
        return None
    inputs = getattr(tf.compat.v1.get_default_graph(), "inputs", ())
    parts = [part for part in inputs if part.dtype.is_floating or part.dtype.is_integer]
    # Integers of more than one dimension are a batch of words or images; of one dimension, labels.
    parts = [part for part in parts if part.shape.rank is not None and part.shape.rank > 1]
    return parts[0] if parts else None
