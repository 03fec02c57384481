"""Measures training steps of Keras on TensorFlow: what is kept for the backward pass, and how long a step takes.

Runs on: every rank, or any process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable

_NOT_KEPT = ("ReadVariableOp", "Const", "Placeholder")


def kept_bytes(model: Any, loss_of: Callable[[Any], Any], batch: Any) -> tuple[float, bool]:
    """Return the bytes of what the backward pass reads of the forward pass, and whether all of it could be counted.

    The step is traced and not run: its shapes are those of the batch. Loops of TensorFlow's, as recurrent layers have
    them, keep lists whose sizes the trace does not say.
    """
    made, operations = _traced(model, loss_of, batch)
    all_operations = made.graph.get_operations()
    forward = {operation.name for operation in all_operations[:operations]}
    kept = {
        tensor.ref(): tensor
        for operation in all_operations[operations:]
        for tensor in operation.inputs
        if tensor.op.name in forward and tensor.op.type not in _NOT_KEPT
    }.values()
    counted = [tensor for tensor in kept if tensor.dtype not in (tf.variant, tf.resource)]
    known = [tensor for tensor in counted if tensor.shape.is_fully_defined()]
    is_whole = len(known) == len(counted) and not any(tensor.dtype == tf.variant for tensor in kept)
    return float(sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in known)), is_whole


def seconds(model: Any, loss_of: Callable[[Any], Any], batch: Any, repetitions: int) -> list[float]:
    """Return the times of some steps, forward and backward, without an update."""
    step, _ = _traced(model, loss_of, batch)
    flat = [tf.convert_to_tensor(part) for part in keras.tree.flatten(batch) if part is not None]
    times = []
    for _ in range(repetitions + 1):
        began = time.perf_counter()
        step(*flat)[0].numpy()
        times.append(time.perf_counter() - began)
    return times[1:]


def _traced(model: Any, loss_of: Callable[[Any], Any], batch: Any) -> tuple[Any, int]:
    """Return the traced step, and how many operations its forward pass has."""
    counts: list[int] = []
    flat = keras.tree.flatten(batch)
    places = [number for number, part in enumerate(flat) if part is not None]

    def step(*tensors: Any) -> list[Any]:
        parts = list(flat)
        for number, tensor in zip(places, tensors, strict=True):
            parts[number] = tensor
        with tf.GradientTape() as tape:
            loss = loss_of(keras.tree.pack_sequence_as(batch, parts))
        counts.append(len(loss.graph.get_operations()))
        found = tape.gradient(loss, model.trainable_weights)
        return [tf.convert_to_tensor(gradient) for gradient in found if gradient is not None]

    tensors = [tf.convert_to_tensor(flat[number]) for number in places]
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
    made = tf.function(step, autograph=False).get_concrete_function(*specs)
    return made, counts[-1]
