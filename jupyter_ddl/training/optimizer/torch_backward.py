"""Exchanges gradients as PyTorch's backward pass leaves them, where the program's own step may change them.

What `early_exchange` does for TensorFlow's tape. One process clips, scales or projects the gradient of the whole batch.
Exchanged only in the optimizer, each rank would do so with the gradient of its part.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import step
from jupyter_ddl.training.optimizer.local_variables import LocalVariables, reduce_in_step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def install() -> None:
    """Wrap what runs a backward pass. Safe to call twice."""
    patch(torch.Tensor, "backward", _backward, Layer.FIT)
    patch(torch.autograd, "backward", _backward, Layer.FIT)
    patch(torch.autograd, "grad", _grad, Layer.FIT)


def _backward(stock: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    # torch.Tensor.backward calls torch.autograd.backward: the inner one exchanges nothing then.
    now = _of_own_step()
    if now is None:
        stock(*args, **kwargs)
        return
    with step.suspended():
        stock(*args, **kwargs)
    trained = [one for one in now.trained if one.value.grad is not None]
    reduced = _exchanged(now, [one.value.grad for one in trained], trained)
    with torch.no_grad():
        for variable, gradient in zip(trained, reduced, strict=True):
            variable.value.grad.copy_(gradient)


def _grad(stock: Callable[..., Any], outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    found = stock(outputs, inputs, *args, **kwargs)
    now = _of_own_step()
    # With `create_graph` it is part of a larger formula, whose own gradient is exchanged.
    if now is None or kwargs.get("create_graph"):
        return found
    sources = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
    by_key = {step.key(variable): variable for variable in now.trained}
    places = [i for i, source in enumerate(sources) if id(source) in by_key]
    gradients = list(found)
    reduced = _exchanged(now, [gradients[i] for i in places], [by_key[id(sources[i])] for i in places])
    for i, gradient in zip(places, reduced, strict=True):
        gradients[i] = gradient
    return tuple(gradients)


def _of_own_step() -> step.Step | None:
    """Return the step of the program's own in which this is called; None in any other."""
    now = step.current()
    return now if now is not None and now.manner.exchanges_early and now.exchange is not None else None


def _exchanged(now: step.Step, gradients: list[Any], variables: Sequence[Any]) -> list[Any]:
    """Return gradients reduced over all ranks. Collective: every rank must call this, in the same order."""
    if not variables:
        return gradients
    assert now.exchange is not None
    # Again even if exchanged in this step. What an earlier pass has left in `grad` is alike on all ranks, and the
    # ranks' shares of the batch add up to their number: so it stays as it is.
    now.forget_exchanged(variables)
    reduced = reduce_in_step(now.exchange, LocalVariables(), gradients, list(variables))
    now.note_exchanged(variables)
    return reduced
