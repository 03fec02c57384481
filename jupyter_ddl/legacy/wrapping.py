"""Wraps methods of Keras, and adds those that it no longer has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jupyter_ddl.host.patching import Layer, around, definer, instead, patch

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wrap_method(cls: type, name: str, ours: Callable[..., Any], also: tuple[str, ...] = ()) -> None:
    """Have a class's method call `ours(stock, self, ...)`, before any other layer of ours sees the call.

    It is wrapped where it is defined, in the class or above it: Keras compares `model.compile` with its own to see
    whether a user's model has another.

    Args:
        cls: the class.
        name: of the method.
        ours: called with Keras's own method in front.
        also: arguments that `ours` takes and Keras's method no longer does.
    """
    wrap(definer(cls, name), name, ours, also)


def wrap(owner: Any, name: str, ours: Callable[..., Any], also: tuple[str, ...] = ()) -> Any:
    """Have an attribute of just this class or module call `ours(stock, ...)`; return what stands there now."""
    patch(owner, name, ours, Layer.LEGACY, partial(around, also=also))
    return getattr(owner, name)


def add(owner: Any, name: str, value: Any) -> None:
    """Give a class or module an attribute, in place of what it may have."""
    patch(owner, name, value, Layer.LEGACY, instead)


def add_missing(owner: Any, name: str, value: Any) -> None:
    """Give a class or module an attribute that it lacks."""
    if not hasattr(owner, name):
        add(owner, name, value)


class Attribute(Generic[T]):
    """An attribute that instances read as if it were theirs, and may still set for themselves.

    Not a property, which would refuse a user's subclass that sets an attribute of this name.
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return what `read` makes of the instance."""
        return self if instance is None else self._read(instance)
