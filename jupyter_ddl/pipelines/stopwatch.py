"""Times how fast a pipeline gives batches, how fast a model takes them, and both together.

Runs on: every rank; nothing here is a collective, so one rank may measure alone.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ROUNDS = 3
# The uncounted start of each measurement, which uses up buffers that filled while another pipeline was measured.
_UNCOUNTED = 0.3


class Feed:
    """A pipeline that runs, again and again from its start, into a model or into nothing."""

    def __init__(self, dataset: Any, step: Callable[[Any], Any] | None) -> None:
        """Start the pipeline.

        Args:
            dataset: the pipeline.
            step: what takes a batch; None drops it.
        """
        finite = int(dataset.cardinality()) != tf.data.INFINITE_CARDINALITY
        self._batches = iter(dataset.repeat() if finite else dataset)
        self._step = step

    def warm(self, batches: int) -> None:
        """Go through the first batches, in which functions are traced and caches filled."""
        for _ in range(batches):
            self._take()

    def batches_per_s(self, seconds: float) -> float:
        """Measure for a while, and for one batch at least."""
        self._run(seconds * _UNCOUNTED)
        return self._run(seconds)

    def _run(self, seconds: float) -> float:
        start_s = time.perf_counter()
        taken, elapsed_s, last = 0, 0.0, None
        while elapsed_s < seconds:
            last = self._take()
            taken += 1
            elapsed_s = time.perf_counter() - start_s
        if last is not None:
            last.numpy()  # a GPU may be behind
        return taken / (time.perf_counter() - start_s)

    def _take(self) -> Any:
        batch = next(self._batches)
        return None if self._step is None else self._step(batch)


def measure(feeds: Mapping[str, Feed], seconds: float) -> dict[str, list[float]]:
    """Return the batches per second of each feed in each round; they take turns, so that all see the same machine.

    Args:
        feeds: by name.
        seconds: how long each is measured, in all rounds together.
    """
    rates: dict[str, list[float]] = {name: [] for name in feeds}
    for _ in range(_ROUNDS):
        for name, feed in feeds.items():
            rates[name].append(feed.batches_per_s(seconds / _ROUNDS))
    return rates


@contextmanager
def training_step(model: Any, batch: Any) -> Iterator[Callable[[Any], Any]]:
    """Return a function that takes a batch forward and backward through a model, without exchange and without update.

    At the end the model's variables are what they were.

    Args:
        model: a compiled Keras model.
        batch: one of the pipeline's, from which a model that is not built takes its shapes.

    Raises:
        InvalidInput: the model has not been compiled.
    """
    if not getattr(model, "compiled", False):
        raise InvalidInput("advise trains with the model, to time it.", "a model without a loss", "Compile it first.")
    model(keras.utils.unpack_x_y_sample_weight(batch)[0], training=False)

    @tf.function(reduce_retracing=True, jit_compile=bool(model.jit_compile))
    def step(data: Any) -> Any:
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            prediction = model(x, training=True)
            loss = model.compute_loss(x=x, y=y, y_pred=prediction, sample_weight=weights, training=True)
        gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        # Something must need every gradient, or TensorFlow leaves the backward pass out.
        return tf.linalg.global_norm([gradient for gradient in gradients if gradient is not None])

    kept = [(variable, variable.numpy()) for variable in (*model.variables, *model.metrics_variables)]
    try:
        step(batch)  # traced before anything is timed
        yield step
    finally:
        for variable, value in kept:
            variable.assign(value)
