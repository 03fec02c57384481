"""Provides a training step's operations on JAX: `interface.Ops`. A step is a function of its state, which is traced.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import jax_collectives, jax_program
from jupyter_ddl.training.backends.flat_exchange import reduced_flat
from jupyter_ddl.training.backends.jax_clock import JaxClock
from jupyter_ddl.training.backends.jax_program import LastBatch, Number, Program, canonical
from jupyter_ddl.training.backends.keras_seed import set_seed_of_program
from jupyter_ddl.training.backends.site_exchange import site_exchanger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from jupyter_ddl.training.backends.interface import RandomState

_BITS = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}
_LARGEST_HALF = 65504.0


number, make_clock, make_last_batch = Number, JaxClock, LastBatch


def tensor(value: Any) -> Any:
    """Return an array of what a program passes: JAX's stay JAX's, all others are NumPy's, of any dtype."""
    if isinstance(value, keras.Variable):
        value = value.value
    return value if isinstance(value, (jax.Array, jax.core.Tracer)) else np.asarray(value)


def array(tensor: Any) -> Any:
    """Return a NumPy array."""
    return np.asarray(tensor)


def is_tensor(value: Any) -> bool:
    """Return whether a value is an array of JAX's."""
    return isinstance(value, jax.Array)


def cast(value: Any, dtype: Any) -> Any:
    """Return an array of another dtype; outside of steps of any that NumPy has."""
    if jax_program.current() is None and not isinstance(value, (jax.Array, jax.core.Tracer)):
        return np.asarray(value, dtype)
    return jnp.asarray(value, canonical(dtype))


def stack(values: Sequence[Any]) -> Any:
    """Return a vector of scalars."""
    return jnp.stack([jnp.asarray(value) for value in values])


def equal(value: Any, other: Any) -> Any:
    """Return whether elements are equal."""
    return jnp.asarray(value) == other


def runs_at_once() -> bool:
    """Return False: a step is traced."""
    return False


def is_functional() -> bool:
    """Return True."""
    return True


def itemsize(tensor: Any) -> int:
    """Return the bytes of an element of an array or a variable."""
    return int(jnp.dtype(tensor.dtype).itemsize)


def kind_of(gradient: Any) -> str:
    """Return a name that gradients share which can be exchanged in one operation: of one dtype."""
    return f"gradients_{gradient.dtype}"


def require_exchangeable() -> None:
    """Raise where gradients are to go through a site's library: JAX compiles the exchange with the step.

    Raises:
        InvalidInput: JUPYTER_DDL_EXCHANGE names one.
    """
    if site_exchanger() is not None:
        raise InvalidInput(
            "Keras on JAX exchanges gradients within its compiled step, and not through a site's library.",
            "one that JUPYTER_DDL_EXCHANGE names",
            "Unset it, or train on Keras's TensorFlow or PyTorch backend.",
        )


def reduce_group(exchange: Any, group: list[Any], name: str) -> list[Any]:  # noqa: ARG001
    """Return gradients of one kind, reduced as an Exchange says, in one operation. Collective."""
    sent = jnp.concatenate([gradient.ravel() for gradient in group])
    flat = reduced_flat(exchange, sent, jax_collectives.sum_in_step)
    ends = np.cumsum([gradient.size for gradient in group])[:-1]
    parts = jnp.split(flat, ends)
    return [part.reshape(gradient.shape) for part, gradient in zip(parts, group, strict=True)]


def maximum(value: Any, other: Any) -> Any:
    """Return the larger one, element by element."""
    return jnp.maximum(value, other)


def where(condition: Any, value: Any, other: Any) -> Any:
    """Return elements of one where the condition holds, else of the other."""
    return jnp.where(condition, value, other)


def divide_no_nan(value: Any, divisor: Any) -> Any:
    """Return a quotient; 0 where the divisor is 0."""
    return jnp.where(divisor == 0, 0, value / jnp.where(divisor == 0, 1, divisor))


def total(value: Any) -> Any:
    """Return the sum of all elements."""
    return jnp.sum(value)


def rank_of(value: Any) -> int:
    """Return the number of dimensions."""
    return int(jnp.ndim(value))


def stop_gradient(value: Any) -> Any:
    """Return the value, as a constant of the loss."""
    return jax.lax.stop_gradient(value)


def cond(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """Call both functions, which change nothing, and return what one of them does."""
    return jax.tree_util.tree_map(lambda one, other: jnp.where(condition, one, other), if_true(), if_false())


def outside_of_graphs() -> AbstractContextManager[Any]:
    """Return a context in which what is made has a value."""
    context: AbstractContextManager[Any] = jax.ensure_compile_time_eval()
    return context


def times(gradient: Any, factor: Any) -> Any:
    """Return a gradient times a scalar; zeros where that is 0, also for what is not a number."""
    factor = jnp.asarray(factor, gradient.dtype)
    return jnp.where(factor == 0, jnp.zeros_like(gradient), gradient * factor)


def densified(gradient: Any) -> Any:
    """Return the gradient."""
    return gradient


def overflowed(gradient: Any) -> Any:
    """Return a gradient with infinities where half precision cannot hold it."""
    return jnp.where(jnp.abs(gradient) > _LARGEST_HALF, jnp.inf, gradient)


def zeros_for(variable: Any) -> Any:
    """Raise: what a step adds up is a variable of the optimizer's here.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "On JAX gradients of several backward passes are added up by Keras's own optimizer.",
        f"backward_passes_per_step above 1, for {getattr(variable, 'path', 'a variable')}",
        "Pass gradient_accumulation_steps to the Keras optimizer; it takes the mean of their gradients.",
    )


def is_variable(value: Any) -> bool:
    """Return whether a value is a variable: JAX has none but Keras's."""
    return isinstance(value, keras.Variable)


def bits_summed(weights: Sequence[Any]) -> Callable[[], Any]:
    """Return a function that returns an int64 array: the sum of the bits of each weight, which rounding cannot blur."""
    compiled = jax.jit(lambda values: jnp.stack([_checksum(value) for value in values]))

    def checksums() -> Any:
        values = [tensor(weight) for weight in weights]
        return np.asarray(compiled(values)).astype(np.int64) if values else np.zeros(0, np.int64)

    return checksums


def scale(variables: Sequence[Any], factor: float) -> None:
    """Multiply variables by a number."""
    for variable in variables:
        variable.assign(variable.value * factor)


def broadcast_into(variables: Sequence[Any], root_rank: int, process_set: Any) -> None:
    """Overwrite variables by those of a rank. Collective."""
    for variable in variables:
        variable.assign(jax_collectives.broadcast(tensor(variable), root_rank, process_set=process_set))


def random_states() -> dict[str, RandomState]:
    """Return nothing: JAX draws from keys that it is given."""
    return {}


def seed_state() -> None:
    """Return None."""


def set_seed_state(seed: int, state: Any) -> None:  # noqa: ARG001
    """Set the program's seed."""
    set_seed_of_program(seed)


def distributed_by(model: Any) -> str | None:  # noqa: ARG001
    """Return the distribution that Keras has, if one is set."""
    distribution = keras.distribution.distribution()
    return None if distribution is None else f"keras.distribution.{type(distribution).__name__}"


def errors_of_steps() -> tuple[type[Exception], ...]:
    """Return what a model raises on batches that do not fit it."""
    return (RuntimeError, TypeError, ValueError)


def make_train_function(
    stock: Callable[..., Any],
    model: Any,
    force: bool,
    step_around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
    *,
    process_set: Any,
) -> Any:
    """Make a model's train function: where it exchanges, of a program of all ranks; always compiled then."""
    program = Program(process_set)
    program.make(model.train_step, step_around)
    if process_set is not None:
        model.train_function = model._make_function(program)
        return None
    answer = stock(model, force)
    made = model.train_function

    def noted(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            program.note(batch)
            yield batch

    def train_function(state: Any, batches: Iterator[Any]) -> Any:
        answer = made(state, noted(batches))
        if program.clock is not None:
            program.clock.ended()
        return answer

    model.train_function = train_function
    return answer


def is_one_program() -> bool:
    """Return whether Keras has a distribution: then `jax_training` runs the ranks."""
    return keras.distribution.distribution() is not None


def can_be_read(optimizer: Any) -> bool:
    """Return whether the arrays of an optimizer and of what it trains are there: a step that was cut off has them."""
    for variable in (*optimizer.variables, *getattr(optimizer, "_trainable_variables", ())):
        if variable._value is None and variable._initializer is None:
            # Keras takes the values out of variables while it trains, and a step that raised left them there.
            return False
        if variable._value is not None and variable._value.is_deleted():
            return False
        try:
            jax.block_until_ready(variable._value)
        except RuntimeError:
            # What was to come of a collective that was ended.
            return False
    return True


def take_step(model: Any, batch: Any) -> None:
    """Take a step of a model's training outside of Keras's loop. Collective, where it exchanges."""
    parts = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
    model.jax_state_sync()
    state = model._get_jax_state(**dict.fromkeys(parts, True))
    _, state = model.train_function(state, iter([batch]))
    model._jax_state = dict(zip(parts, state, strict=True))
    model._jax_state_synced = False
    model.jax_state_sync()


def _checksum(value: Any) -> Any:
    if value.dtype == bool:
        return jnp.sum(value, dtype=jnp.uint32)
    return jnp.sum(jax.lax.bitcast_convert_type(value, _BITS[value.dtype.itemsize]), dtype=jnp.uint32)
