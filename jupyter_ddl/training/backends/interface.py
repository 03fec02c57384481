"""Declares what a backend of Keras's provides for a training step on several ranks.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

Condition = Any
Tensor = Any


@dataclass(frozen=True)
class Sums:
    """Sums over all steps so far.

    Attributes:
        steps: steps that have ended.
        samples: of these, on this rank.
        batch_s: the times when their batches were there, each since the clock's origin.
        exchange_s: the time in exchanges.
        squares: the sum of the squares of each step's samples; with `samples` it gives the size of the largest batch.
    """

    steps: int = 0
    samples: float = 0.0
    batch_s: float = 0.0
    exchange_s: float = 0.0
    squares: float = 0.0


class Clock(Protocol):
    """Measures the steps of one model's train function."""

    @property
    def origin_s(self) -> float:
        """What times count from, so that their sum keeps its digits; seconds since the epoch."""

    def batch_is_there(self, data: Any) -> None:
        """Note the time, and the number of samples, at the beginning of the step."""

    def step_ends(self) -> None:
        """Add the step's times to the sums."""

    def exchange(self, gradients: Sequence[Tensor], reduce: Callable[[], list[Tensor]]) -> list[Tensor]:
        """Return what `reduce` does, and note the time from when all gradients were there."""

    def wait(self, since: Sequence[Tensor], until: Sequence[Tensor]) -> None:
        """Note, as exchange, the time from when `since` were there until `until` were: this rank's, then others'."""

    def meet(self, reduce: Callable[[], Tensor]) -> Tensor:
        """Return what `reduce` does, in which ranks first wait for each other in a step.

        Where operations run at once this is where the wait is noted, and elsewhere by `wait`.
        """

    def read(self) -> Sums:
        """Return the sums; safe to call from any thread, while steps run."""


class Number(Protocol):
    """A number that steps read and change; a scalar."""

    def read_value(self) -> Tensor:
        """Return it as a tensor, as it is when the step runs."""

    def assign(self, value: Any) -> Any:
        """Set it."""

    def assign_add(self, value: Any) -> Any:
        """Add to it; return the sum."""

    def numpy(self) -> Any:
        """Return it."""


class LastBatch(Protocol):
    """The last batch of a model's training, which a rank takes again, without weight, once it has none left."""

    def keep(self, data: Any) -> None:
        """Keep a batch, at the beginning of a step."""

    def free_others(self) -> None:
        """Free what is not the last batch."""

    @property
    def batch(self) -> Any:
        """The last batch that was kept; None where there was none."""


class Arrays(Protocol):
    """What `--auto` does with arrays and tensors outside of steps."""

    def dense_parts(self, value: Any) -> list[Any] | None:
        """Return the dense tensors that a ragged or sparse tensor is made of; None for any other value."""

    def gathered(self, tensor: Tensor, numbers: Any) -> Tensor:
        """Return some rows of a tensor."""

    def rows_of_sparse(self, part: Any, start: Any, stop: Any) -> Any:
        """Return rows of a sparse tensor; None for any other value."""

    def portable(self, part: Any) -> Any:
        """Return what can be pickled of a tensor or an array."""

    def from_portable(self, portable: Any) -> Any:
        """Return the tensor of what `portable` returned."""

    def joined(self, parts: Sequence[Any]) -> Any:
        """Return the rows of several, as Keras's `predict` joins its batches."""


@dataclass(frozen=True)
class RandomState:
    """A random state: how to read it, to set it, and to seed it with a number."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]
    seed: Callable[[int], Any]


class Ops(Protocol):
    """The operations of a training step, and of what is around it. Dtypes are names, as Keras has them."""

    def number(self, value: float, dtype: str, name: str) -> Number:
        """Return a number that steps change; safe to call while a step is traced."""

    def make_clock(self) -> Clock:
        """Return a clock."""

    def make_last_batch(self) -> LastBatch:
        """Return what keeps a batch."""

    def tensor(self, value: Any) -> Tensor:
        """Return a tensor of what a program passes: a number, an array, a variable, a tensor; slices stay slices."""

    def array(self, tensor: Tensor) -> Any:
        """Return a NumPy array of a tensor that is there."""

    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a dense tensor of this backend's."""

    def cast(self, value: Any, dtype: Any) -> Tensor:
        """Return a tensor of another dtype."""

    def stack(self, values: Sequence[Any]) -> Tensor:
        """Return a vector of scalars."""

    def equal(self, value: Tensor, other: Any) -> Condition:
        """Return whether elements are equal."""

    def runs_at_once(self) -> bool:
        """Return whether operations run as they are called, and are not traced."""

    def is_functional(self) -> bool:
        """Return whether a step is a function of its state: what it computes is gone but for what it returns."""

    def unchanged_unless(self, condition: Condition) -> AbstractContextManager[None]:
        """Return a context that leaves the model's state as it was, where the condition does not hold.

        In a step that is functional only.
        """

    def is_one_program(self) -> bool:
        """Return whether Keras itself makes one program of a step on all ranks, by `keras.distribution` on JAX."""

    def can_be_read(self, optimizer: Any) -> bool:
        """Return whether an optimizer's variables have values: a release in a step of JAX's may have taken them."""

    def take_step(self, model: Any, batch: Any) -> None:
        """Take a step of a model's training outside of Keras's loop."""

    def divided(self, gradient: Tensor, divisor: int) -> Tensor:
        """Return a gradient, which may be slices, divided by a number."""

    def itemsize(self, tensor: Any) -> int:
        """Return the bytes of an element of a tensor or a variable."""

    def kind_of(self, gradient: Tensor) -> str:
        """Return a name that gradients share which can be exchanged in one operation."""

    def reduce_group(self, exchange: Any, group: list[Tensor], name: str) -> list[Tensor]:
        """Return gradients of one kind, reduced as an `optimizer.exchange.Exchange` says. Collective.

        Args:
            exchange: how.
            group: this rank's, of one kind.
            name: the same on all ranks.
        """

    def exchanges_in_one(self) -> bool:
        """Return whether all gradients are there before the first is exchanged."""

    def naming(self, name: str) -> AbstractContextManager[Any]:
        """Return a context in which operations have a prefix, which it gives."""

    def require_exchangeable(self) -> None:
        """Raise where the exchange cannot be compiled.

        Raises:
            InvalidInput: it cannot.
        """

    def maximum(self, value: Tensor, other: Any) -> Tensor:
        """Return the larger one, element by element."""

    def where(self, condition: Condition, value: Any, other: Any) -> Tensor:
        """Return elements of one where the condition holds, else of the other."""

    def divide_no_nan(self, value: Tensor, divisor: Tensor) -> Tensor:
        """Return a quotient; 0 where the divisor is 0."""

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of all elements."""

    def rank_of(self, value: Tensor) -> int | None:
        """Return the number of dimensions; None where it is not known."""

    def rows(self, value: Tensor) -> Any:
        """Return the number of rows, as it is when the step runs."""

    def stop_gradient(self, value: Tensor) -> Tensor:
        """Return the value, as a constant of the loss."""

    def cond(self, condition: Condition, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
        """Call one of two functions, as the condition is when the step runs; both return the like."""

    def gathered_rows(self, rows: Tensor, name: str, process_set: Any) -> Tensor:
        """Return all ranks' rows, of which each has as many, in the order of the ranks. Collective."""

    def repeat(
        self, count: Any, body: Callable[[Any, Sequence[Tensor]], Sequence[Tensor]], state: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        """Return what `body(number, state)` makes of a state, called for 1, 2, ... below `count`, one after another."""

    def minimum(self, value: Any, other: Any) -> Any:
        """Return the smaller one of two whole numbers, of which the second may be a tensor."""

    def without_gradients(self) -> AbstractContextManager[Any]:
        """Return a context in which weights may be changed."""

    def after(self, tensors: Sequence[Tensor]) -> AbstractContextManager[Any]:
        """Return a context whose operations run when these tensors are there."""

    def outside_of_graphs(self) -> AbstractContextManager[Any]:
        """Return a context in which variables can be made while a step is traced."""

    def on_device(self, name: str) -> AbstractContextManager[Any]:
        """Return a context that runs on a device; "" leaves it to the backend."""

    def times(self, gradient: Tensor, factor: Any) -> Tensor:
        """Return a gradient times a scalar; zeros where that is 0, also for what is not a number."""

    def is_slices(self, gradient: Tensor) -> bool:
        """Return whether a gradient is rows of an embedding and their numbers."""

    def has_same_rows_always(self, gradient: Tensor) -> bool:
        """Return whether a gradient is rows whose numbers no batch decides, such as those of a table of positions."""

    def densified(self, gradient: Tensor) -> Tensor:
        """Return slices as the dense tensor that they stand for; others as they are."""

    def overflowed(self, gradient: Tensor) -> Tensor:
        """Return a gradient with infinities where half precision cannot hold it."""

    def zeros_for(self, variable: Any) -> Any:
        """Return a variable like another, of zeros, which no saved model has."""

    def buffers_of(self, model: Any) -> list[Any]:
        """Return what a model keeps that is no weight of Keras's, as objects with a variable's methods.

        On PyTorch the buffers of modules: the running averages of a torch.nn.BatchNorm1d.
        """

    def whole_on_first_rank(self, variables: Sequence[Any]) -> AbstractContextManager[None]:
        """Have rank 0 hold variables whole of which each rank has its part, to be read in the block. Collective."""

    def is_variable(self, value: Any) -> bool:
        """Return whether a value is a variable, Keras's or the backend's."""

    def bits_summed(self, weights: Sequence[Any]) -> Callable[[], Any]:
        """Return a function that returns an int64 array: the sum of the bits of each weight."""

    def scale(self, variables: Sequence[Any], factor: float) -> None:
        """Multiply variables by a number, all at once."""

    def broadcast_into(self, variables: Sequence[Any], root_rank: int, process_set: Any) -> None:
        """Overwrite variables by those of a rank. Collective."""

    def samples_in(self, data: Any) -> Any:
        """Return the number of samples of a batch, a scalar: the first dimension of its first part."""

    def tensors_in(self, data: Any) -> list[Tensor]:
        """Return the tensors that a batch is made of."""

    def seed_of_program(self) -> int | None:
        """Return the seed of the whole program; None where none was set."""

    def random_states(self) -> dict[str, RandomState]:
        """Return the states from which the backend draws on the host: none where it draws from no seed."""

    def seed_state(self) -> Any:
        """Return the state from which the backend draws on the host, as JSON can hold it."""

    def set_seed_state(self, seed: int, state: Any) -> None:
        """Set the program's seed, and the state that it had come to."""

    def state_of_orders(self) -> Any:
        """Return the state from which Keras draws the order of data; None where it has seeds for that."""

    def set_state_of_orders(self, state: Any) -> None:
        """Set what `state_of_orders` returned."""

    def distributed_by(self, model: Any) -> str | None:
        """Return what distributes a model already; None where nothing does."""

    def errors_of_steps(self) -> tuple[type[Exception], ...]:
        """Return what a model raises on batches that do not fit it."""

    def unconverted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that the backend calls as it is, whatever it compiles."""

    def make_train_function(
        self,
        stock: Callable[..., Any],
        model: Any,
        force: bool,
        step_around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
        *,
        process_set: Any,
    ) -> Any:
        """Make a model's train function of a step that is around the user's; where it exchanges, uncompiled by XLA.

        Args:
            stock: Keras's `Model.make_train_function`.
            model: whose train function it is. Its `_jit_compile` is as the user wants it afterwards.
            force: make it again where there is one.
            step_around: from the user's step to the one that is called for each batch.
            process_set: the ranks that exchange gradients in the step, for which XLA has no kernel but JAX's; None
                where none do.
        """

    def join(self) -> int:
        """Wait until all ranks have called this, adding zeros to the others' allreduces; return the last rank.

        Raises:
            InvalidInput: the backend's library has no such operation.
        """
