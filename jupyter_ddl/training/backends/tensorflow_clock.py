"""Measures where the time of training steps goes, inside the step, which TensorFlow runs as one call from Python.

Three timestamps a step, each an operation that waits for what it times: the batch is there, the rank's own gradients
are, all ranks' are. One operation adds all of them to one variable, since each further one would cost as much as the
timestamps together (20 and 116 microseconds of a step of 550, on one core). It is read once a second.

On a GPU the rank's own gradients count as there when their computation has been queued: the rest of it counts as
exchange, which waits for it.

Runs on: every rank.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from jupyter_ddl.training.backends.interface import Sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class TensorFlowClock:
    """Measures the steps of one model's train function.

    Attributes:
        origin_s: what times count from, so that their sum keeps its digits; seconds since the epoch.
    """

    def __init__(self) -> None:
        self.origin_s = time.time()
        # On the host, where the timestamps are.
        with tf.init_scope(), tf.device("CPU:0"):
            self._sums = tf.Variable([0.0] * 5, dtype=tf.float64, trainable=False, name="clock_sums")
        # The graph and the tensors of the step that is being made.
        self._graph: Any = None
        self._step: tuple[Any, Any] | None = None
        self._exchanges_s: list[Any] = []

    def batch_is_there(self, data: Any) -> None:
        """Note the time, and the number of samples, at the beginning of the step."""
        self._step, self._exchanges_s = None, []
        if is_compiled_by_xla():
            return
        with tf.device("CPU:0"):
            at_s = _time_after(tensors_in(data)) - self.origin_s
            self._step, self._graph = (tf.cast(samples_in(data), tf.float64), at_s), _graph()

    def step_ends(self) -> None:
        """Add the step's times to the sums."""
        if self._step is None:
            return
        samples, at_s = self._step
        self._step = None
        with tf.device("CPU:0"):
            exchange_s = self._exchanges_s[0] if len(self._exchanges_s) == 1 else _sum_of(self._exchanges_s)
            self._sums.assign_add(tf.stack([1.0, samples, at_s, exchange_s, samples * samples]), read_value=False)

    def exchange(self, gradients: Sequence[Any], reduce: Callable[[], list[Any]]) -> list[Any]:
        """Return what `reduce` does, and note the time from when all gradients were there."""
        with tf.device("CPU:0"):
            began_s = _time_after(gradients)
        reduced = reduce()
        with tf.device("CPU:0"):
            self._add_exchange(_time_after(reduced) - began_s)
        return reduced

    def wait(self, since: Sequence[Any], until: Sequence[Any]) -> None:
        """Note, as exchange, the time from when this rank's own tensors were there until the other ranks' were."""
        with tf.device("CPU:0"):
            # In this order: TensorFlow takes the timestamps of a graph one after another, as they were made.
            since_s = _time_after(since)
            self._add_exchange(_time_after(until) - since_s)

    def meet(self, reduce: Callable[[], Any]) -> Any:
        """Return what `reduce` does: `wait` notes it, once the graph has what is waited for."""
        return reduce()

    def read(self) -> Sums:
        """Return the sums; safe to call from any thread, while steps run."""
        steps, *others = self._sums.numpy().tolist()
        return Sums(int(steps), *others)

    def _add_exchange(self, seconds: Any) -> None:
        if self._step is not None and self._graph is _graph():
            self._exchanges_s.append(seconds)
        else:
            # In a branch of the step, whose tensors stay there; or outside of a step.
            self._sums.assign_add(tf.stack([0.0, 0.0, 0.0, seconds, 0.0]), read_value=False)


def _sum_of(numbers: Sequence[Any]) -> Any:
    return tf.add_n(numbers) if numbers else tf.zeros([], tf.float64)


def _graph() -> Any:
    """Return the graph that is being made; None where operations run eagerly."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def _time_after(tensors: Sequence[Any]) -> Any:
    """Return the time when all of these are there, seconds since the epoch: a float64 scalar."""
    with tf.control_dependencies([tensor for tensor in tensors if tensor is not None]):
        return tf.timestamp()


def tensors_in(data: Any) -> list[Any]:
    """Return the tensors that a batch is made of."""
    return [part for part in tf.nest.flatten(data, expand_composites=True) if tf.is_tensor(part)]


def samples_in(data: Any) -> Any:
    """Return the number of samples of a batch, a scalar int tensor: the first dimension of its first part."""
    first = next((part for part in tf.nest.flatten(data) if part is not None), None)
    if first is None:
        return tf.constant(0)
    if isinstance(first, tf.SparseTensor):
        return first.dense_shape[0]
    return tf.shape(first)[0] if first.shape.rank != 0 else tf.constant(1)


def is_compiled_by_xla() -> bool:
    """Return whether what is being traced will be compiled, and so cannot read a clock.

    TensorFlow has no public question for this; its own libraries ask the same function.
    """
    graph = _graph()
    return graph is not None and bool(control_flow_util.GraphOrParentsInXlaContext(graph))
