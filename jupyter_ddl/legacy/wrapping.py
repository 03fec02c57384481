"""How a method or a function of Keras is wrapped."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wrapped(stock: Callable[..., Any], ours: Callable[..., Any], also: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Return a function with the name and signature of `stock` that calls `ours(stock, ...)`.

    Args:
        stock: Keras's own.
        ours: called with `stock` in front of the arguments.
        also: arguments that `ours` takes and `stock` no longer does; they show in the signature, so that whoever binds
            a call by it finds them.
    """

    @functools.wraps(stock)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ours(stock, *args, **kwargs)

    # Keras reads a layer's arguments with getfullargspec, which does not follow `__wrapped__`.
    wrapper.__signature__ = _with(inspect.signature(stock), also)  # type: ignore[attr-defined]
    return wrapper


def _with(signature: inspect.Signature, also: tuple[str, ...]) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    new = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in also
        if name not in signature.parameters
    ]
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
        return signature.replace(parameters=[*parameters[:-1], *new, parameters[-1]])
    return signature.replace(parameters=[*parameters, *new])


def wrap_method(cls: type, name: str, ours: Callable[..., Any], also: tuple[str, ...] = ()) -> None:
    """Have a class's method call `ours(stock, self, ...)`, unless it does so already.

    It is wrapped where it is defined, in the class or above it: Keras compares `model.compile` with its own to see
    whether a user's model has another.

    Called again after another has wrapped the method, it wraps that.

    Args:
        cls: the class.
        name: of the method.
        ours: called with Keras's own method in front.
        also: as `wrapped` takes it.
    """
    owner = next(one for one in cls.__mro__ if name in vars(one))
    stock = vars(owner)[name]
    if stock is not _methods.get((owner, name)):
        _methods[owner, name] = wrapped(stock, ours, also)
        setattr(owner, name, _methods[owner, name])


# What stands in a class now. Not an attribute of the method: another's wrapper around ours would copy it.
_methods: dict[tuple[type, str], Callable[..., Any]] = {}


class Attribute(Generic[T]):
    """An attribute that instances read as if it were theirs, and may still set for themselves.

    Not a property, which would refuse a user's subclass that sets an attribute of this name.
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return what `read` makes of the instance."""
        return self if instance is None else self._read(instance)
