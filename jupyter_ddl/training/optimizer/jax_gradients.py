"""Exchanges gradients as JAX's functions return them, where the program's own step may change them before the update.

What `early_exchange` does for TensorFlow's tape. One process clips, scales or projects the gradient of the whole batch.
Exchanged only in the optimizer, each rank would do so with the gradient of its part.

Runs on: every rank.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.training import step
from jupyter_ddl.training.backends import jax_program
from jupyter_ddl.training.optimizer.local_variables import reduce_early

if TYPE_CHECKING:
    from collections.abc import Callable


def install() -> None:
    """Wrap what makes functions of gradients. Safe to call twice."""
    patch(jax, "grad", _grad, Layer.FIT)
    patch(jax, "value_and_grad", _value_and_grad, Layer.FIT)


def _grad(stock: Callable[..., Any], fun: Any, argnums: Any = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    made = stock(fun, argnums, has_aux, **kwargs)

    @functools.wraps(made)
    def gradients(*args: Any, **named: Any) -> Any:
        answer = made(*args, **named)
        found, aux = answer if has_aux else (answer, None)
        found = _exchanged(found, args, argnums)
        return (found, aux) if has_aux else found

    return gradients


def _value_and_grad(stock: Callable[..., Any], fun: Any, argnums: Any = 0, *rest: Any, **kwargs: Any) -> Any:
    made = stock(fun, argnums, *rest, **kwargs)

    @functools.wraps(made)
    def gradients(*args: Any, **named: Any) -> Any:
        value, found = made(*args, **named)
        return value, _exchanged(found, args, argnums)

    return gradients


def _exchanged(found: Any, args: tuple[Any, ...], argnums: Any) -> Any:
    """Return gradients, those of trained variables reduced over all ranks.

    Collective, in a step of the program's own: every rank must call this, in the same order.
    """
    now, tracing = step.current(), jax_program.current()
    if now is None or tracing is None or now.exchange is None or not now.manner.exchanges_early:
        return found
    of = tuple(args[number] for number in argnums) if isinstance(argnums, tuple | list) else args[argnums]
    trained = {id(value): each for value, each in zip(tracing.state[0], now.trained, strict=True)}
    # Within another function of gradients values are others: it is part of a larger formula.
    flat, structure = jax.tree_util.tree_flatten(found)
    variables = [trained.get(id(value)) for value in jax.tree_util.tree_leaves(of)]
    gradients = reduce_early(now, flat, variables)
    return found if gradients is None else jax.tree_util.tree_unflatten(structure, gradients)
