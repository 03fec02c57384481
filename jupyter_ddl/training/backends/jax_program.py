"""Runs a training step of several ranks as one program of JAX's: each rank its own batch, with exchanges inside.

The program is a `shard_map` over one device of each rank. Variables, batches and results are this rank's own arrays,
of any value and of any number of rows: to JAX they are copies of one array on all devices, and inside of `shard_map`
without its check each device computes with what it has. So a rank's arrays are its own outside of steps.

JAX calls a step with tracers, once for each shape. What a step changes beside its state (`Number`) goes into the
program, and comes out of it. Exchanges run in one order, whatever a rank's shapes are: each needs what the one before
it gave.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jupyter_ddl.training.backends.jax_meshes import AXIS, as_global, mesh_of, on_device, own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_program: ContextVar[Program | None] = ContextVar("the program that is being made", default=None)
_tracing: ContextVar[_Tracing | None] = ContextVar("the tracing of a program", default=None)


class StepClock(Protocol):
    """What a program reports its steps to."""

    def begins(self, data: Any) -> None:
        """Note that a step begins: its batch is there."""

    def ended(self) -> None:
        """Note that JAX has the step."""


class Number:
    """A number that steps change: on the host outside of them, and inside one of the program's values.

    Attributes:
        name: what it is.
        dtype: by Keras's name.
        shape: that of a scalar.
    """

    def __init__(self, value: float, dtype: str, name: str) -> None:
        self._value: Any = np.asarray(value, dtype)
        self.name = name
        self.dtype = dtype
        self.shape = ()

    def read_value(self) -> Any:
        """Return it, as it is when the step runs."""
        tracing = _tracing.get()
        return self._value if tracing is None else tracing.read(self)

    def assign(self, value: Any) -> None:
        """Set it."""
        tracing = _tracing.get()
        if tracing is None:
            self._value = value if isinstance(value, jax.Array) else np.asarray(value, self.dtype)
        else:
            tracing.write(self, jnp.asarray(value, canonical(self.dtype)))

    def assign_add(self, value: Any) -> Any:
        """Add to it; return the sum."""
        self.assign(self.read_value() + value)
        return self.read_value()

    def numpy(self) -> Any:
        """Return it."""
        return np.asarray(self._value, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return it, for NumPy."""
        return np.asarray(self.numpy(), dtype)


class LastBatch:
    """The last batch, by reference."""

    def __init__(self) -> None:
        self.batch: Any = None
        if (program := _program.get()) is not None:
            program.last = self

    def keep(self, data: Any) -> None:
        """Do nothing: the program notes it, since a step has tracers only."""

    def free_others(self) -> None:
        """Do nothing: there is one."""


class _Tracing:
    """One tracing of a program.

    Attributes:
        state: the model's, as the step has left it so far.
        last: what the last exchange gave.
    """

    def __init__(self, program: Program, values: list[Any], state: Any) -> None:
        self._program = program
        self._values = dict(zip(program.numbers, values, strict=True))
        self.state = state
        self.last: Any = None
        self._level = next((_level_of(leaf) for leaf in jax.tree_util.tree_leaves((values, state))), None)

    def read(self, number: Number) -> Any:
        """Return a number's value."""
        if number not in self._values:
            self._program.numbers.append(number)
            self._values[number] = np.asarray(number.numpy(), canonical(number.dtype))
        return self._values[number]

    def write(self, number: Number, value: Any) -> None:
        """Set a number."""
        self.read(number)
        self._values[number] = value

    def is_outside_of_gradients(self, value: Any) -> bool:
        """Return whether a value may be used in all of the step: one of a function that is differentiated may not."""
        return _level_of(value) is self._level

    def results(self, count: int) -> list[Any]:
        """Return the numbers with which the program was called."""
        return [jnp.asarray(self._values[number]) for number in self._program.numbers[:count]]


def _level_of(value: Any) -> Any:
    return getattr(value, "_trace", None)


class Program:
    """The step of one model.

    Args:
        process_set: the ranks that train together; None where a step exchanges nothing.
    """

    def __init__(self, process_set: Any) -> None:
        self._process_set = process_set
        self.numbers: list[Number] = []
        self.clock: StepClock | None = None
        self.last: LastBatch | None = None
        self._step: Callable[[Any], Any] | None = None
        self._mesh: Any = None
        self._compiled: Any = None
        self._known: set[Any] = set()
        # The last results: this rank's arrays, and what they are to all ranks.
        self._made: dict[int, tuple[Any, Any]] = {}

    def make(self, users: Callable[..., Any], around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]) -> None:
        """Make the step of the user's, which takes a state and a batch.

        Args:
            users: Keras's `train_step(state, data)`.
            around: from a step that takes a batch to one that exchanges.
        """

        def of_batch(data: Any) -> Any:
            tracing = _tracing.get()
            assert tracing is not None
            logs, tracing.state = users(tracing.state, data)
            return logs

        token = _program.set(self)
        try:
            self._step = around(of_batch)
        finally:
            _program.reset(token)

    def note(self, data: Any) -> None:
        """Note the batch of a step that begins."""
        if self.clock is not None:
            self.clock.begins(data)
        if self.last is not None:
            self.last.batch = data

    def __call__(self, state: Any, data: Any) -> tuple[Any, Any]:
        """Take a step. Collective: every rank of the process set must call this."""
        self.note(data)
        mesh = mesh_of(self._process_set)
        if mesh is not self._mesh:
            self._mesh, self._compiled = mesh, None
            self._known.clear()
            self._made.clear()
        given = self._global((state, data))
        self._find_numbers(given)
        numbers = self._global([number.read_value() for number in self.numbers])
        if self._compiled is None:
            self._compiled = jax.jit(self._mapped(), donate_argnums=1)
        logs, new, values = self._own(self._compiled(numbers, *given))
        # Strict: one that is read here for the first time would have been taken for a constant.
        for number, value in zip(self.numbers, values, strict=True):
            number.assign(value)
        if self.clock is not None:
            self.clock.ended()
        return logs, new

    def _mapped(self) -> Any:
        spec = jax.sharding.PartitionSpec()
        return jax.shard_map(self._traced, mesh=self._mesh, in_specs=spec, out_specs=spec, check_vma=False)

    def _traced(self, numbers: list[Any], state: Any, data: Any) -> Any:
        assert self._step is not None
        count = len(numbers)
        tracing = _Tracing(self, [*numbers, *(number.numpy() for number in self.numbers[count:])], state)
        token, outer = _tracing.set(tracing), _program.set(self)
        try:
            logs = self._step(data)
        finally:
            _tracing.reset(token)
            _program.reset(outer)
        return jax.tree_util.tree_map(jnp.asarray, logs), tracing.state, tracing.results(count)

    def _find_numbers(self, given: Any) -> None:
        """Trace the step for batches of a new shape, to find which numbers it reads."""
        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree_util.tree_leaves(given[1]))
        if shapes in self._known:
            return
        numbers = [np.asarray(number.numpy(), canonical(number.dtype)) for number in self.numbers]
        jax.eval_shape(self._mapped(), numbers, *given)
        self._known.add(shapes)

    def _global(self, tree: Any) -> Any:
        def one(leaf: Any) -> Any:
            known = self._made.get(id(leaf))
            if known is not None and known[0] is leaf:
                return known[1]
            return as_global(self._mesh, on_device(self._mesh, leaf))

        return jax.tree_util.tree_map(one, tree)

    def _own(self, tree: Any) -> Any:
        """Return this rank's arrays of what the program has returned."""
        self._made = made = {}

        def one(leaf: Any) -> Any:
            mine = own(leaf)
            made[id(mine)] = mine, leaf
            return mine

        return jax.tree_util.tree_map(one, tree)


def current() -> _Tracing | None:
    """Return the tracing in which this is called; None outside of steps."""
    return _tracing.get()


def register_clock(clock: StepClock) -> None:
    """Make a clock that of the program that is being made."""
    if (program := _program.get()) is not None:
        program.clock = clock


def exchanged(value: Any, reduce: Callable[[Any], Any]) -> Any:
    """Return what an exchange over the ranks gives, after those before it. In a step's tracing only."""
    tracing = _tracing.get()
    assert tracing is not None
    if tracing.last is not None:
        value, _ = jax.lax.optimization_barrier((value, tracing.last))
    reduced = reduce(value)
    # What is computed inside of a gradient is not to be seen outside of it.
    if tracing.is_outside_of_gradients(reduced):
        tracing.last = reduced
    return reduced


@contextmanager
def unchanged_unless(condition: Any) -> Iterator[None]:
    """Keep the state as it is before the block where the condition does not hold when the step runs."""
    tracing = _tracing.get()
    assert tracing is not None
    before = tracing.state
    yield
    tracing.state = jax.tree_util.tree_map(lambda new, old: jnp.where(condition, new, old), tracing.state, before)


def canonical(dtype: Any) -> Any:
    """Return the dtype that JAX has for one: without x64 it has no numbers of 64 bits."""
    return jax.dtypes.canonicalize_dtype(dtype)


def axis_sum(value: Any) -> Any:
    """Return the sum over the ranks, in a program."""
    return jax.lax.psum(value, AXIS)
