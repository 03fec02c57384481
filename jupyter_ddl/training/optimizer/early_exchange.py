"""Exchanges gradients as the tape returns them, where the program's own step may change them before the update.

One process clips, scales or projects the gradient of the whole batch. Exchanged only in the optimizer, each rank would
do so with the gradient of its part.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from tensorflow.python import pywrap_tfe

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import step
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
    if now is None or not now.manner.exchanges_early or isinstance(tape, DistributedTapeMixin):
        return found
    # Within another tape it is part of a larger formula, whose own gradient is exchanged.
    return _exchanged(now, found, sources) if pywrap_tfe.TFE_Py_TapeSetIsEmpty() else found


@unconverted
def _exchanged(now: step.Step, found: Any, sources: Any) -> Any:
    """Return the gradients, those of trained variables reduced over all ranks.

    Collective: every rank must call this, in the same order.
    """
    variables = [source if is_trained(source) else None for source in tf.nest.flatten(sources)]
    gradients = reduce_early(now, tf.nest.flatten(found), variables)
    return found if gradients is None else tf.nest.pack_sequence_as(found, gradients)
