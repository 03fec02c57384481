"""Serves names that left Keras's modules, and modules that left Keras.

Keras's public modules exist three times: `keras.x`, `keras._tf_keras.keras.x` (which is `tf.keras.x`) and
`tensorflow.keras.x`, made again from the same files when a program writes `import tensorflow.keras.x`. What is
registered here for "x" holds for all three.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import Layer, absent, instead, patch, unpatched
from jupyter_ddl.legacy.notices import say

if TYPE_CHECKING:
    from collections.abc import Callable

TF_TREE = "keras._tf_keras.keras"
# The longer ones first. Keras's own code is no part of any.
_TREES = ("tensorflow.keras", TF_TREE, "keras")
_V1_TREE = "tensorflow.compat.v1.keras"
_OWN_CODE = ("keras.src", "keras._tf_keras")

_moved: dict[str, dict[str, Callable[[ModuleType], Any]]] = {}
_instead: set[tuple[str, str]] = set()
_replaced: dict[int, tuple[Any, Any]] = {}
_gone: dict[str, tuple[str, str]] = {}
_refused: dict[str, dict[str, str]] = {}


def part(name: str) -> str | None:
    """Return what a module is within its tree: "layers" for `keras.layers`, "" for `keras`; None for others."""
    for tree in _TREES:
        if name == tree:
            return ""
        if name.startswith(f"{tree}."):
            return None if tree == "keras" and name.startswith(_OWN_CODE) else name[len(tree) + 1 :]
    return None


def is_interface(name: str) -> bool:
    """Return whether this is one of Keras's public modules."""
    return part(name) is not None


def move(module: str, name: str, row: str | None, read: Callable[[ModuleType], Any], *, instead: bool = False) -> None:
    """Serve a name that a public module no longer has.

    Args:
        module: its part, e.g. "backend".
        name: of the attribute.
        row: the row whose sentence is printed when it is read; None where the value itself prints it.
        read: makes the value, given the module that was asked.
        instead: answer too where the module still has the name.
    """

    def noticed(asked: ModuleType) -> Any:
        value = read(asked)
        if row is not None:
            say(row)
        return value

    _moved.setdefault(module, {})[name] = noticed
    if instead:
        _instead.add((module, name))


def replace(stock: Any, ours: Any) -> None:
    """Have every public module that holds `stock` hold `ours`."""
    _replaced[id(stock)] = (stock, ours)


def is_replaced(stock: Any) -> bool:
    """Return whether `replace` was called for this already."""
    return id(stock) in _replaced


def retire(module: str, today: str, row: str) -> None:
    """Serve a public module that is gone with the names of one that is there.

    Args:
        module: the part that is gone, e.g. "layers.core".
        today: the part that has its names, e.g. "layers", or a module's whole name.
        row: what to say when it is imported.
    """
    _gone[module] = (today, row)
    parent, _, name = module.rpartition(".")
    move(parent, name, None, lambda asked: importlib.import_module(f"{asked.__name__}.{name}"))


def refuse(module: str, name: str, today: str) -> None:
    """Have a public module say, of a name or module that Keras 3 lacks and we do not serve, what to write instead.

    `hasattr` stays false, as libraries that look before they read expect.

    Args:
        module: its part, e.g. "layers".
        name: of the attribute, or of the module below it.
        today: a sentence: what to write instead.
    """
    _refused.setdefault(module, {})[name] = today


def refusal(fullname: str) -> str | None:
    """Return the error's text for a dotted name that is refused, e.g. "keras.layers.DenseFeatures"; None for others."""
    here = part(fullname)
    if not here:
        return None
    module, _, name = here.rpartition(".")
    sentence = _refused.get(module, {}).get(name)
    if sentence is None:
        return None
    return str(InvalidInput("Keras 3 has not every name of Keras 2.", f"keras.{here}", sentence))


def apply_to_loaded() -> None:
    """Change the public modules that have been imported."""
    for name, module in sys.modules.copy().items():
        if isinstance(module, ModuleType) and is_interface(name):
            apply(module)


def apply(module: ModuleType) -> None:
    """Change one public module."""
    if isinstance(module.__loader__, _Served):
        return
    held = vars(module)
    for name in list(held):
        # Not as it is now: --auto may have been installed first, and is called before this.
        value = unpatched(module, name)
        stock, ours = _replaced.get(id(value), (None, None))
        if stock is not None and stock is value:
            patch(module, name, ours, Layer.NAMES, instead)
    here = part(module.__name__) or ""
    for name, read in _moved.get(here, {}).items():
        if name in held and (here, name) in _instead:
            patch(module, name, read, Layer.NAMES, absent)
    if here in _moved or here in _refused:
        patch(module, "__getattr__", _Answer(module), Layer.NAMES, instead)


@dataclass(frozen=True)
class _Answer:
    """Answers for the names that a public module does not have.

    Attributes:
        module: that is asked.
    """

    module: ModuleType

    def __call__(self, name: str) -> Any:
        asked = self.module.__name__
        read = _moved.get(part(asked) or "", {}).get(name)
        if read is not None:
            return read(self.module)
        raise AttributeError(refusal(f"{asked}.{name}") or f"module {asked!r} has no attribute {name!r}")


def served(name: str) -> tuple[str, str | None] | None:
    """Return the module that stands in for one that is gone, and the row to say; None if none does."""
    if name == _V1_TREE or name.startswith(f"{_V1_TREE}."):
        return TF_TREE + name[len(_V1_TREE) :], None
    here = part(name)
    if not here or here not in _gone:
        return None
    today, row = _gone[here]
    return today if today.startswith(TF_TREE) else (name[: -len(here)] + today).rstrip("."), row


def spec_of(name: str, target: tuple[str, str | None]) -> ModuleSpec:
    """Return the spec of a module that stands in for one that is gone.

    Args:
        name: of the module that is gone.
        target: as `served` returns it.
    """
    return ModuleSpec(name, _Served(*target), is_package=True)


class _Served(Loader):
    """Makes a module that has the names of another."""

    def __init__(self, target: str, row: str | None) -> None:
        self._target = target
        self._row = row

    def create_module(self, _spec: ModuleSpec) -> None:
        """Have Python make an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the module the names of the other."""
        target = importlib.import_module(self._target)
        if self._row is not None:
            say(self._row)

        def answer(name: str) -> Any:
            if name == "__all__":
                return [public for public in vars(target) if not public.startswith("_")]
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            own = _moved.get(part(module.__name__) or "", {})
            if name in own:
                return own[name](module)
            if not hasattr(target, name) and (text := refusal(f"{module.__name__}.{name}")) is not None:
                raise AttributeError(text)
            return getattr(target, name)

        module.__dict__["__getattr__"] = answer
