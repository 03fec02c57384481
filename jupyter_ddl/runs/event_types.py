"""Whether an event that was read has in each field what its class says: a file may hold anything."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

# What JSON's integers are in every other program that reads these files, and what can be made a float.
_MOST_BITS = 63


def has_its_types(event: Any) -> bool:
    """Return whether each field of an event is of the type that its class says; what is `Any` may be anything.

    Args:
        event: the event, or a record within one, such as a fault.
    """
    kind: Any = type(event)
    return all(is_it(getattr(event, name)) for name, is_it in _checks(kind))


@cache
def _checks(kind: Any) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    hints = get_type_hints(kind)
    found = ((field.name, _check(hints[field.name])) for field in fields(kind))
    return tuple((name, check) for name, check in found if check is not None)


def _check(hint: Any) -> Callable[[Any], bool] | None:
    """Return the check of one type; None where everything passes."""
    if hint is Any:
        return None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if origin in (Union, types.UnionType):
        checks = [_check(argument) for argument in arguments]
        return lambda value: any(check is None or check(value) for check in checks)
    if origin is tuple:
        each = _check(arguments[0])
        return lambda value: isinstance(value, tuple) and (each is None or all(map(each, value)))
    if origin is dict:
        each = _check(arguments[1])
        return lambda value: isinstance(value, dict) and (each is None or all(map(each, value.values())))
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: isinstance(value, hint) and has_its_types(value)
    if hint is int:
        return _is_integer
    if hint is float:
        return lambda value: isinstance(value, float) or _is_integer(value)
    return lambda value: isinstance(value, hint)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _MOST_BITS
