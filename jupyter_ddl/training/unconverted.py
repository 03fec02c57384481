"""Keeps TensorFlow's autograph out of our functions, where a tf.function of the user's calls them.

Autograph rewrites what it reaches, so that Python's `if` and `for` work on tensors. Our code means Python's own, and
some of its rewritten forms fail (methods of dataclasses lose their `self`; seen with TensorFlow 2.21).

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_ddl.host.patching import around
from jupyter_ddl.training.backends import ops

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")


def unconverted(function: Function) -> Function:
    """Return the function, which autograph then leaves as it is, with all that it calls."""
    left_alone: Any = ops.unconverted(function)
    return left_alone  # type: ignore[no-any-return]


def unconverted_around(stock: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement that calls `ours(stock, ...)`, both unconverted: a `how` of `patching.patch`."""
    replacement: Callable[..., Any] = around(stock, ours)
    return unconverted(replacement)
