"""Registers patches: every method and function of a library that we replace, and how it is put back.

`patch` is the only place of the package that replaces one. Several layers may replace the same method, in any order of
their imports: the register keeps them in the order of `Layer`. What is patched, and why, is declared in
`protocol/patch_table.py`, which a test compares with this register, and with all modules of a real rank. What a library
has copied of a patched attribute (horovod.tensorflow.init is HorovodBasics.init) stays as it was copied.

No patches, and not here:

- whole modules that stand in the place of Horovod's: `import_hooks.replace`. `undo_all` puts those back, too.
- what is set on one object that the program has given us: the class of an optimizer or a tape that is distributed, as
  `hvd.DistributedOptimizer` says, a model's `train_step` while its step is made, what a tf.function keeps of a trace.
- traits and hooks of IPython, ipykernel and ipyparallel, message handlers, import finders, signal handlers: interfaces
  by which a library is given code.
- `sys.stdout` and `sys.stderr`, which are what a process sets them to; and what a cell itself has replaced, which
  `engine/pristine_modules.py` puts back.

Runs on: every rank, and the kernel.
"""

from __future__ import annotations

import functools
import inspect
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host import import_hooks
from jupyter_ddl.protocol.patch_table import Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    How = Callable[[Any, Callable[..., Any]], Any]

__all__ = ["Layer", "Patch", "absent", "around", "definer", "instead", "patch", "patches", "undo_all", "unpatched"]

_ABSENT = object()


def around(stock: Any, ours: Callable[..., Any], also: tuple[str, ...] = ()) -> Any:
    """Return a replacement with the name and signature of `stock` that calls `ours(stock, ...)`.

    Args:
        stock: a function; or a static method, class method or property, whose function is replaced.
        ours: called with the stock function in front of the arguments.
        also: arguments that `ours` takes and `stock` does not; they are added to the signature.
    """
    if isinstance(stock, (staticmethod, classmethod)):
        return type(stock)(around(stock.__func__, ours, also))
    if isinstance(stock, property):
        assert stock.fget is not None
        return property(around(stock.fget, ours, also), stock.fset, stock.fdel)

    @functools.wraps(stock)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ours(stock, *args, **kwargs)

    with suppress(TypeError, ValueError):  # some built-in functions have no signature
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


def instead(_stock: Any, ours: Callable[..., Any]) -> Any:
    """Return `ours` itself as the replacement."""
    return ours


def absent(_stock: Any, _ours: Callable[..., Any]) -> Any:
    """Return that a module is to lack the attribute, so that its `__getattr__` is asked."""
    return _ABSENT


def definer(cls: type, name: str) -> type:
    """Return the class, `cls` or one above it, that defines an attribute."""
    return next(one for one in cls.__mro__ if name in vars(one))


@dataclass(frozen=True, eq=False)
class Patch:
    """One replacement of one attribute.

    Attributes:
        owner: the class, module or object whose attribute is replaced.
        name: of the attribute.
        layer: decides which of several patches of the attribute is called first.
    """

    owner: Any
    name: str
    layer: Layer
    ours: Callable[..., Any] = field(repr=False)
    how: How = field(repr=False)

    def undo(self) -> bool:
        """Take the patch out; the last one of an attribute puts back the very object that was there.

        Returns:
            Whether it is out. False where other code has replaced the attribute since, whose replacement stays.
        """
        return _register.undo(self)


def patch(owner: Any, name: str, ours: Callable[..., Any], layer: Layer, how: How = around) -> Patch:
    """Replace an attribute of a class, a module or an object, unless the same patch is in place already.

    An attribute that a class inherits is replaced in that class alone. Where other code has replaced the attribute
    since our last patch, the new one goes around that code's.

    Args:
        owner: whose attribute it is.
        name: of the attribute. `how` must be `instead` where there is none yet; undone, there is none again.
        ours: by default called as `ours(stock, *args, **kwargs)`, where `stock` is the next patch inwards, and of the
            innermost the library's own. Patches are the same where `ours` is equal.
        layer: outer layers are called first; within a layer, the later patch.
        how: makes the replacement of `stock` and `ours`: `around`, `instead`, or another.
    """
    return _register.add(Patch(owner, name, layer, ours, how))


def patches() -> list[Patch]:
    """Return all patches that are in place, in the order of their installation."""
    return list(_register.all())


def unpatched(owner: Any, name: str) -> Any:
    """Return an attribute, which is there, as it was before our first patch of it."""
    return _register.unpatched(owner, name)


def undo_all() -> list[Patch]:
    """Undo every patch, the latest first, and give imports Horovod's own modules again.

    Returns:
        The patches that stay because other code has replaced the attribute.
    """
    import_hooks.put_back()
    return [one for one in reversed(patches()) if not one.undo()]


class _Stack:
    """The patches of one attribute, around the object that was there before the first one."""

    def __init__(self, owner: Any, name: str) -> None:
        # Holds the owner, so that its id stays its own.
        self.owner = owner
        self.name = name
        self.patches: list[Patch] = []
        self._own = _own(owner, name)
        self.stock = self._own if self._own is not _ABSENT else _inherited(owner, name)
        self._placed = self._own

    def is_outermost(self) -> bool:
        """Return whether the attribute is as this stack has left it."""
        if self._placed is _ABSENT:
            # Not as read: the module's `__getattr__` may answer for the name.
            return self.name not in vars(self.owner)
        return _own(self.owner, self.name) is self._placed

    def place(self) -> None:
        """Set the attribute to the stock object with all patches around it."""
        if not self.patches:
            self._placed = self._own
        else:
            value = self.stock
            for one in self.patches:
                value = one.how(value, one.ours)
            self._placed = value
        if self._placed is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self._placed)


def _own(owner: Any, name: str) -> Any:
    # Of a module, the attribute as read: some of TensorFlow's make an attribute when it is first read.
    return getattr(owner, name, _ABSENT) if isinstance(owner, ModuleType) else vars(owner).get(name, _ABSENT)


def _inherited(owner: Any, name: str) -> Any:
    # Of a class as it is defined there: a static method as such. Of an object the bound method.
    look_up = inspect.getattr_static if isinstance(owner, type) else getattr
    return look_up(owner, name, _ABSENT)


class _Register:
    """All patches of this process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # By owner's id and name. Another stack begins where other code has replaced the attribute since.
        self._stacks: dict[tuple[int, str], list[_Stack]] = {}

    def all(self) -> Iterator[Patch]:
        with self._lock:
            for stacks in list(self._stacks.values()):
                for stack in stacks:
                    yield from stack.patches

    def add(self, new: Patch) -> Patch:
        with self._lock:
            stacks = self._stacks.setdefault((id(new.owner), new.name), [])
            for stack in stacks:
                for old in stack.patches:
                    if old.layer is new.layer and old.ours == new.ours:
                        return old
            if not stacks or not stacks[-1].is_outermost():
                stacks.append(_Stack(new.owner, new.name))
            stack = stacks[-1]
            stack.patches.append(new)
            stack.patches.sort(key=lambda one: one.layer)
            stack.place()
        return new

    def unpatched(self, owner: Any, name: str) -> Any:
        with self._lock:
            stacks = self._stacks.get((id(owner), name))
        return stacks[0].stock if stacks else vars(owner)[name]

    def undo(self, old: Patch) -> bool:
        with self._lock:
            key = (id(old.owner), old.name)
            stacks = self._stacks.get(key, [])
            stack = next((one for one in stacks if old in one.patches), None)
            if stack is None:
                return True
            if not stack.is_outermost():
                return False
            stack.patches.remove(old)
            stack.place()
            if not stack.patches:
                stacks.remove(stack)
            if not stacks:
                del self._stacks[key]
        return True


_register = _Register()
