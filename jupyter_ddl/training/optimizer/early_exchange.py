"""Exchanges gradients as the tape returns them, where the program's own step may change them before the update.

One process clips, scales or projects the gradient of the whole batch. Exchanged only in the optimizer, each rank would
do so with the gradient of its part.

A loss with a number for each sample, which the program's own code does not reduce, is a sum over the batch: TensorFlow
takes the gradient of that. It gets the factor of sums.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from tensorflow.python import pywrap_tfe

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import step
from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.optimizer.local_variables import reduce_early
from jupyter_ddl.training.optimizer.tape import DistributedTapeMixin
from jupyter_ddl.training.unconverted import unconverted, unconverted_around

if TYPE_CHECKING:
    from collections.abc import Callable


def install() -> None:
    """Wrap the tape's `gradient`. Safe to call twice."""
    patch(tf.GradientTape, "gradient", _gradient, Layer.FIT, unconverted_around)


def is_trained(source: Any) -> bool:
    """Return whether a source of a gradient is a variable that is trained, Keras's or TensorFlow's."""
    return isinstance(source, (keras.Variable, tf.Variable)) and bool(source.trainable)


def _gradient(stock: Callable[..., Any], tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
    found = stock(tape, target, sources, *args, **kwargs)
    now = step.current()
    if now is None or isinstance(tape, DistributedTapeMixin) or not pywrap_tfe.TFE_Py_TapeSetIsEmpty():
        # Within another tape it is part of a larger formula, whose own gradient is exchanged.
        return found
    if now.manner.whole_batches and not (args or kwargs.get("output_gradients")):
        found = _of_sums(now, found, tf.nest.flatten(target), sources)
    return _exchanged(now, found, sources) if now.manner.exchanges_early else found


@unconverted
def _of_sums(now: step.Step, found: Any, losses: list[Any], sources: Any) -> Any:
    """Return the gradients; of losses that have a number for each sample, as parts of the whole batch's sum.

    Collective where they have: every rank must call this, in the same order.
    """
    if now.exchange is None or now.exchange.op != hvd.Average or now.has_vectors:
        return found
    are_by_sample = _are_by_sample(losses, now.data)
    if are_by_sample is None:
        return found
    factor = tf.where(are_by_sample, now.factor_of_sums(now.exchange), 1.0)
    gradients = [
        ops.times(gradient, factor) if gradient is not None and is_trained(source) else gradient
        for gradient, source in zip(tf.nest.flatten(found), tf.nest.flatten(sources), strict=True)
    ]
    return tf.nest.pack_sequence_as(found, gradients)


def _are_by_sample(losses: list[Any], data: Any) -> Any:
    """Return whether losses have a number for each sample of a batch, a boolean tensor; None where it is known not.

    Losses that have as many numbers for any batch, such as means by class, have not.
    """
    first = next((part for part in tf.nest.flatten(data) if hasattr(part, "shape")), None)
    if first is None or not all(isinstance(loss, tf.Tensor) and loss.shape.rank for loss in losses):
        return None
    known = first.shape[0] if first.shape.rank else None
    if any(loss.shape[0] not in (None, known) for loss in losses):
        return None
    rows = tf.cast(ops.samples_in(data), tf.int32)
    return tf.reduce_all([tf.equal(tf.shape(loss)[0], rows) for loss in losses])


@unconverted
def _exchanged(now: step.Step, found: Any, sources: Any) -> Any:
    """Return the gradients, those of trained variables reduced over all ranks.

    Collective: every rank must call this, in the same order.
    """
    variables = [source if is_trained(source) else None for source in tf.nest.flatten(sources)]
    gradients = reduce_early(now, tf.nest.flatten(found), variables)
    return found if gradients is None else tf.nest.pack_sequence_as(found, gradients)
