"""Reads from compiled code which names a function of the program calls.

Runs on: every rank.
"""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any


def names_in(function: Any) -> frozenset[str]:
    """Return the names of attributes and globals that a function uses, with those of functions inside of it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return frozenset() if code is None else frozenset(_names(code))


def constants_in(function: Any) -> frozenset[Any]:
    """Return the numbers and texts that a function's code holds, but for its docstring."""
    unwrapped = inspect.unwrap(function)
    code = getattr(unwrapped, "__code__", None)
    held = () if code is None else code.co_consts
    return frozenset(value for value in held if isinstance(value, (int, float, str)) and value != unwrapped.__doc__)


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names, *(name for part in inner for name in _names(part))}
