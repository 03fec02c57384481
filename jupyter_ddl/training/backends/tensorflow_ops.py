"""Provides a training step's operations on TensorFlow: `interface.Ops`. Runs on: every rank."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from jupyter_ddl.training.backends import tensorflow_site_exchange
from jupyter_ddl.training.backends.made_functions import UNCOMPILED, attributes_set
from jupyter_ddl.training.backends.tensorflow_clock import TensorFlowClock
from jupyter_ddl.training.backends.tensorflow_last_batch import KeptBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from jupyter_ddl.training.backends.interface import Number

_BITS = {1: tf.int8, 2: tf.int16, 4: tf.int32, 8: tf.int64}

make_clock, make_last_batch = TensorFlowClock, KeptBatch


def number(value: float, dtype: str, name: str) -> Number:
    """Return a number that steps change."""
    with tf.init_scope():
        made: Number = tf.Variable(value, dtype=dtype, trainable=False, name=name)
        return made


def tensor(value: Any) -> Any:
    """Return a tensor of what a program passes."""
    if isinstance(value, tf.IndexedSlices):
        return value
    # A NumPy scalar keeps its dtype, which TensorFlow would take for a Python number's.
    return tf.convert_to_tensor(np.asarray(value) if isinstance(value, np.generic) else value)


def array(tensor: Any) -> Any:
    """Return a NumPy array of a tensor that is there."""
    # Of a scalar string it is bytes.
    return np.asarray(tensor.numpy())


def is_tensor(value: Any) -> bool:
    """Return whether a value is a dense tensor."""
    return bool(tf.is_tensor(value)) and not isinstance(value, tf.IndexedSlices)


def cast(value: Any, dtype: Any) -> Any:
    """Return a tensor of another dtype."""
    return tf.cast(value, dtype)


def stack(values: Sequence[Any]) -> Any:
    """Return a vector of scalars."""
    return tf.stack(values)


def equal(value: Any, other: Any) -> Any:
    """Return whether elements are equal."""
    return tf.equal(value, other)


def runs_at_once() -> bool:
    """Return whether operations run as they are called, and are not traced."""
    return bool(tf.executing_eagerly())


def divided(gradient: Any, divisor: int) -> Any:
    """Return a gradient, which may be slices, divided by a number."""
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(divisor, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(divisor, gradient.dtype)


def itemsize(tensor: Any) -> int:
    """Return the bytes of an element of a tensor or a variable."""
    size_bytes: int = tf.as_dtype(tensor.dtype).size
    return size_bytes


def kind_of(gradient: Any) -> str:
    """Return a name that gradients share which can be exchanged in one operation: of one dtype, dense or slices."""
    if isinstance(gradient, tf.IndexedSlices):
        return f"slices_{gradient.dtype.name}_{gradient.indices.dtype.name}"
    return f"gradients_{gradient.dtype.name}"


def exchanges_in_one() -> bool:
    """Return False: a gradient is sent as soon as the backward pass has made it."""
    return False


def naming(name: str) -> AbstractContextManager[Any]:
    """Return a name scope, which TensorFlow makes unique among the optimizers of a step."""
    scope: AbstractContextManager[Any] = tf.name_scope(name)
    return scope


def maximum(value: Any, other: Any) -> Any:
    """Return the larger one, element by element."""
    return tf.maximum(value, other)


def where(condition: Any, value: Any, other: Any) -> Any:
    """Return elements of one where the condition holds, else of the other."""
    return tf.where(condition, value, other)


def divide_no_nan(value: Any, divisor: Any) -> Any:
    """Return a quotient; 0 where the divisor is 0."""
    return tf.math.divide_no_nan(value, divisor)


def total(value: Any) -> Any:
    """Return the sum of all elements."""
    return tf.reduce_sum(value)


def rank_of(value: Any) -> int | None:
    """Return the number of dimensions; None where it is not known."""
    known: int | None = value.shape.rank
    return known


def rows(value: Any) -> Any:
    """Return the number of rows: a scalar int tensor."""
    return tf.shape(value)[0]


def stop_gradient(value: Any) -> Any:
    """Return the value, as a constant of the loss."""
    return tf.stop_gradient(value)


def cond(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """Call one of two functions, as the condition is when the graph runs."""
    return tf.cond(condition, if_true, if_false)


def gathered_rows(rows: Any, name: str, process_set: Any) -> Any:
    """Return all ranks' rows, of which each has as many, in the order of the ranks. Collective."""
    return hvd.allgather(rows, name=name, process_set=process_set)


def repeat(count: Any, body: Callable[[Any, Sequence[Any]], Sequence[Any]], state: Sequence[Any]) -> Sequence[Any]:
    """Return what `body(number, state)` makes of a state, called for 1, 2, ... below `count`, one after another."""
    found: Sequence[Any] = tf.while_loop(
        lambda number, *_: number < count,
        lambda number, *now: (number + 1, *body(number, now)),
        (tf.constant(1, count.dtype), *map(tf.convert_to_tensor, state)),
        parallel_iterations=1,
    )
    return found[1:]


def minimum(value: Any, other: Any) -> Any:
    """Return the smaller one of two whole numbers."""
    return tf.minimum(tf.cast(value, other.dtype), other)


def without_gradients() -> AbstractContextManager[Any]:
    """Return an empty context: no tape records an update."""
    return nullcontext()


@contextmanager
def after(tensors: Sequence[Any]) -> Iterator[None]:
    """Have the block's operations run when these tensors are there, except those of a variable's first value."""
    with tf.variable_creator_scope(_waiting_for_nothing), tf.control_dependencies(tensors):
        yield


def _waiting_for_nothing(make: Callable[..., Any], **arguments: Any) -> Any:
    """Make a variable whose first value TensorFlow can lift out of the step, without which XLA does not compile it."""
    first = arguments.get("initial_value")
    if callable(first) and not hasattr(first, "checkpoint_position"):

        def made() -> Any:
            with tf.control_dependencies(None):
                return first()

        arguments["initial_value"] = made
    return make(**arguments)


def outside_of_graphs() -> AbstractContextManager[Any]:
    """Return a context in which variables can be made while a step is traced."""
    outside: AbstractContextManager[Any] = tf.init_scope()
    return outside


def on_device(name: str) -> AbstractContextManager[Any]:
    """Return a context that runs on a device; "" leaves it to TensorFlow."""
    there: AbstractContextManager[Any] = tf.device(name)
    return there


def times(gradient: Any, factor: Any) -> Any:
    """Return a gradient times a scalar; zeros where that is 0, also for what is not a number."""
    scalar = tf.cast(factor, gradient.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        values = tf.math.multiply_no_nan(gradient.values, scalar)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return tf.math.multiply_no_nan(gradient, scalar)


def is_slices(gradient: Any) -> bool:
    """Return whether a gradient is rows of an embedding and their numbers."""
    return isinstance(gradient, tf.IndexedSlices)


def densified(gradient: Any) -> Any:
    """Return slices as the dense tensor that they stand for; others as they are."""
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def overflowed(gradient: Any) -> Any:
    """Return a gradient with infinities where half precision cannot hold it."""
    return tf.where(tf.abs(gradient) > tf.float16.max, tf.constant(float("inf"), gradient.dtype), gradient)


def zeros_for(variable: Any) -> Any:
    """Return a variable like another, of zeros."""
    with tf.init_scope():
        return tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False, name="sum_of_gradients")


def is_variable(value: Any) -> bool:
    """Return whether a value is a variable, Keras's or TensorFlow's."""
    return isinstance(value, (keras.Variable, tf.Variable))


def bits_summed(weights: Sequence[Any]) -> Callable[[], Any]:
    """Return a function that returns an int64 array: the sum of the bits of each weight, which rounding cannot blur."""

    def checksums() -> Any:
        return tf.stack([_checksum(weight) for weight in weights]) if weights else tf.zeros(0, tf.int64)

    traced = tf.function(checksums, autograph=False).get_concrete_function()
    return lambda: traced().numpy()


def scale(variables: Sequence[Any], factor: float) -> None:
    """Multiply variables by a number, all in one graph: a warm-up calls it at each step."""
    _scale()([variable.value for variable in variables], tf.constant(factor, tf.float64))


def broadcast_into(variables: Sequence[Any], root_rank: int, process_set: Any) -> None:
    """Overwrite variables by those of a rank. Collective."""
    plain = [variable.value if isinstance(variable, keras.Variable) else variable for variable in variables]
    if tensorflow_site_exchange.broadcast_into(plain, root_rank, process_set):
        return

    def broadcast_all() -> None:
        for i, variable in enumerate(plain):
            # Ranks find each other's tensors by name, and a variable's own name holds Keras's automatic layer names,
            # which differ where a rank has made one model more.
            name = f"broadcast_variables_{i}"
            variable.assign(hvd.broadcast(variable, root_rank, name=name, process_set=process_set))

    # In one graph, so that Horovod gets all of them at once and can send them together.
    tf.function(broadcast_all, autograph=False).get_concrete_function()()


def distributed_by(model: Any) -> str | None:
    """Return the strategy that distributes a model; None where it is TensorFlow's default one."""
    strategy = getattr(model, "_distribute_strategy", None)
    default = tf.distribute.get_strategy()
    if tf.distribute.has_strategy() or (strategy is not None and not isinstance(strategy, type(default))):
        return f"tf.distribute's {type(strategy or default).__name__}"
    return None


def errors_of_steps() -> tuple[type[Exception], ...]:
    """Return what a model raises on batches that do not fit it."""
    return (tf.errors.InvalidArgumentError, ValueError)


def unconverted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which autograph then leaves as it is, with all that it calls."""
    left_alone: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return left_alone


def make_train_function(
    stock: Callable[..., Any],
    model: Any,
    force: bool,
    step_around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
    *,
    process_set: Any,
) -> Any:
    """Make a model's train function of a step that is around the user's, which Keras takes from the model now.

    Where it exchanges gradients it is made without XLA. Evaluation and prediction stay with XLA, where the user asked
    for it.
    """
    with attributes_set(model, train_step=step_around(model.train_step), **({} if process_set is None else UNCOMPILED)):
        return stock(model, force)


def join() -> int:
    """Wait until all ranks have called this; return the last that did."""
    # In a graph of its own each time: TensorFlow 2.21 gives a second call the answer of the first, since the operation
    # is not marked as stateful. Source: horovod 0.28.1, horovod/tensorflow/mpi_ops.cc, REGISTER_OP("HorovodJoin")
    last: int = tf.function(hvd.join, autograph=False).get_concrete_function()()
    return last


@cache
def _scale() -> Any:
    def scale_all(variables: list[Any], factor: Any) -> None:
        for variable in variables:
            variable.assign(variable * tf.cast(factor, variable.dtype))

    return tf.function(scale_all, autograph=False, reduce_retracing=True)


def _checksum(weight: Any) -> Any:
    value = weight.value if isinstance(weight, keras.Variable) else weight
    bits = tf.bitcast(value, _BITS[value.dtype.size])
    if "GPU" in value.device:
        # TensorFlow sums int32 on the host only.
        bits = tf.cast(bits, tf.int64)
    return tf.cast(tf.reduce_sum(bits), tf.int64)
