"""Provides a training step's operations on PyTorch: `interface.Ops`. All run at once. Runs on: every rank."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import torch

from jupyter_ddl.horovod_api import torch_collectives
from jupyter_ddl.training.backends.flat_exchange import reduced_flat
from jupyter_ddl.training.backends.interface import RandomState
from jupyter_ddl.training.backends.keras_seed import set_seed_of_program
from jupyter_ddl.training.backends.made_functions import UNCOMPILED, attributes_set
from jupyter_ddl.training.backends.site_exchange import reduced, require_plain, site_exchanger
from jupyter_ddl.training.backends.torch_clock import TorchClock
from jupyter_ddl.training.backends.torch_variables import Buffer, GradientSum, HostNumber, ReferredBatch, dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_LARGEST_HALF = torch.finfo(torch.float16).max


number, make_clock, make_last_batch = HostNumber, TorchClock, ReferredBatch


def tensor(value: Any) -> torch.Tensor:
    """Return a tensor of what a program passes, without its history of gradients."""
    if isinstance(value, (keras.Variable, Buffer)):
        value = value.value
    if isinstance(value, torch.Tensor):
        return value.detach()
    return torch.as_tensor(np.asarray(value))


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor."""
    return isinstance(value, torch.Tensor)


def cast(value: Any, dtype: Any) -> torch.Tensor:
    """Return a tensor of another dtype."""
    return torch.as_tensor(value).to(dtype_of(dtype))


def stack(values: Sequence[Any]) -> torch.Tensor:
    """Return a vector of scalars."""
    return torch.stack([torch.as_tensor(value) for value in values])


def equal(value: Any, other: Any) -> torch.Tensor:
    """Return whether elements are equal."""
    return torch.as_tensor(value) == other


def runs_at_once() -> bool:
    """Return True."""
    return True


def itemsize(tensor: Any) -> int:
    """Return the bytes of an element of a tensor or a variable."""
    return int(dtype_of(tensor.dtype).itemsize)


def kind_of(gradient: torch.Tensor) -> str:
    """Return a name that gradients share which can be exchanged in one operation: of one dtype, on one device."""
    return f"gradients_{gradient.dtype}_{gradient.device}"


def require_exchangeable() -> None:
    """Do nothing: a step that torch.compile has compiled calls the exchange as it is."""


@torch.no_grad()
def reduce_group(exchange: Any, group: list[torch.Tensor], name: str) -> list[torch.Tensor]:  # noqa: ARG001
    """Return gradients of one kind, reduced as an Exchange says, in one operation. Collective."""
    flat = torch.cat([gradient.reshape(-1) for gradient in group])
    exchanger = site_exchanger()
    if exchanger is None:
        flat = reduced_flat(exchange, flat, torch_collectives.sum_in_place)
    else:
        require_plain(exchange)
        sent, context = exchange.compression.compress(flat)
        answer = torch.as_tensor(reduced(exchanger, exchange, sent.cpu().numpy())).to(sent)
        flat = exchange.compression.decompress(answer, context)
    parts = flat.split([gradient.numel() for gradient in group])
    return [part.view_as(gradient) for part, gradient in zip(parts, group, strict=True)]


def maximum(value: torch.Tensor, other: Any) -> torch.Tensor:
    """Return the larger one, element by element."""
    return torch.clamp(torch.as_tensor(value), min=other)


def where(condition: Any, value: Any, other: Any) -> torch.Tensor:
    """Return elements of one where the condition holds, else of the other."""
    return torch.where(torch.as_tensor(condition), value, other)


def divide_no_nan(value: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    """Return a quotient; 0 where the divisor is 0."""
    return torch.where(divisor == 0, torch.zeros_like(divisor), value / divisor)


def total(value: torch.Tensor) -> torch.Tensor:
    """Return the sum of all elements."""
    return value.sum()


def rank_of(value: torch.Tensor) -> int:
    """Return the number of dimensions."""
    return int(value.ndim)


def stop_gradient(value: torch.Tensor) -> torch.Tensor:
    """Return the value, as a constant of the loss."""
    return value.detach()


def cond(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """Call one of two functions."""
    return if_true() if condition else if_false()


def gathered_rows(rows: torch.Tensor, name: str, process_set: Any) -> torch.Tensor:  # noqa: ARG001 (TensorFlow's)
    """Return all ranks' rows, of which each has as many, in the order of the ranks. Collective."""
    return torch_collectives.allgather_even(rows, process_set)


def repeat(count: int, body: Callable[[Any, Sequence[Any]], Sequence[Any]], state: Sequence[Any]) -> Sequence[Any]:
    """Return what `body(number, state)` makes of a state, called for 1, 2, ... below `count`."""
    for number in range(1, count):
        state = body(number, state)
    return state


def minimum(value: int, other: int) -> int:
    """Return the smaller one of two whole numbers."""
    return min(value, other)


def without_gradients() -> AbstractContextManager[Any]:
    """Return a context in which weights may be changed."""
    context: AbstractContextManager[Any] = torch.no_grad()
    return context


def outside_of_graphs() -> AbstractContextManager[Any]:
    """Return an empty context."""
    return nullcontext()


def times(gradient: torch.Tensor, factor: Any) -> torch.Tensor:
    """Return a gradient times a scalar; zeros where that is 0, also for what is not a number."""
    if float(factor) == 0.0:
        return torch.zeros_like(gradient)
    return gradient * float(factor)


def densified(gradient: Any) -> Any:
    """Return a gradient as a dense tensor: a module of PyTorch's may make sparse ones."""
    if isinstance(gradient, torch.Tensor) and gradient.layout is not torch.strided:
        return gradient.to_dense()
    return gradient


def overflowed(gradient: torch.Tensor) -> torch.Tensor:
    """Return a gradient with infinities where half precision cannot hold it."""
    return torch.where(gradient.abs() > _LARGEST_HALF, torch.full_like(gradient, float("inf")), gradient)


def zeros_for(variable: Any) -> GradientSum:
    """Return a variable like another, of zeros."""
    return GradientSum(tensor(variable))


def is_variable(value: Any) -> bool:
    """Return whether a value is a variable, Keras's or PyTorch's."""
    return isinstance(value, (keras.Variable, torch.nn.Parameter))


def bits_summed(weights: Sequence[Any]) -> Callable[[], Any]:
    """Return a function that returns an int64 array: the sum of the bits of each weight, which rounding cannot blur."""

    def checksums() -> Any:
        sums = [_checksum(tensor(weight)) for weight in weights]
        return torch.stack(sums).cpu().numpy() if sums else np.zeros(0, np.int64)

    return checksums


@torch.no_grad()
def scale(variables: Sequence[Any], factor: float) -> None:
    """Multiply variables by a number, all at once."""
    torch._foreach_mul_([tensor(variable) for variable in variables], factor)


def broadcast_into(variables: Sequence[Any], root_rank: int, process_set: Any) -> None:
    """Overwrite variables by those of a rank. Collective."""
    for variable in variables:
        sent = torch_collectives.broadcast(tensor(variable), root_rank, process_set=process_set)
        with torch.no_grad():
            variable.copy_(sent) if isinstance(variable, torch.Tensor) else variable.assign(sent)


def random_states() -> dict[str, RandomState]:
    """Return the state from which PyTorch draws on the host, as shuffles do."""

    def put(state: bytes) -> None:
        torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    return {"torch": RandomState(lambda: torch.get_rng_state().numpy().tobytes(), put, torch.manual_seed)}


def seed_state() -> str:
    """Return the state from which PyTorch draws on the host, as JSON can hold it."""
    return bytes(random_states()["torch"].get()).hex()


def set_seed_state(seed: int, state: str) -> None:
    """Set the program's seed, and the state that it had come to."""
    set_seed_of_program(seed)
    random_states()["torch"].set(bytes.fromhex(state))


def state_of_orders() -> Any:
    """Return the state from which PyTorch draws on the host."""
    return random_states()["torch"].get()


def set_state_of_orders(state: Any) -> None:
    """Set it."""
    random_states()["torch"].set(state)


def distributed_by(model: Any) -> str | None:  # noqa: ARG001 (TensorFlow's)
    """Return None: Keras on PyTorch has no strategies."""
    return None


def errors_of_steps() -> tuple[type[Exception], ...]:
    """Return what a model raises on batches that do not fit it."""
    return (RuntimeError, ValueError)


def make_train_function(
    stock: Callable[..., Any],
    model: Any,
    force: bool,
    step_around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
    *,
    process_set: Any,
) -> Any:
    """Make a model's train function, which looks for the model's `train_step` at each call; and put ours around it.

    Where it exchanges gradients it is made without torch.compile.
    """
    with attributes_set(model, **({} if process_set is None else UNCOMPILED)):
        answer = stock(model, force)
    made = model.train_function
    taken = step_around(lambda data: made([data]))
    model.train_function = lambda batches: taken(batches[0])
    return answer


def _checksum(value: torch.Tensor) -> torch.Tensor:
    return value.contiguous().view(_BITS[value.element_size()]).to(torch.int64).sum()
