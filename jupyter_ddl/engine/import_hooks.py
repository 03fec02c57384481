"""Acts when a module is imported, without importing it: calls a function then, or gives another module in its place.

Ranks and scripts must be ready for a program that imports TensorFlow, Keras and Horovod in any order, or never, so
nothing heavy may be imported to change it. Runs on: every rank.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_listeners: dict[str, list[Callable[[ModuleType], None]]] = {}
_replacements: dict[str, tuple[str, Callable[[], bool]]] = {}
# Modules that the stock finders are being asked for: ours must not answer itself.
_asking: set[str] = set()


def when_imported(name: str, listener: Callable[[ModuleType], None]) -> None:
    """Call `listener` with a module once it has been executed: now, if it has been already.

    Args:
        name: the module's full name.
        listener: called in the importing thread, before the import statement returns. What it raises, the import does.
    """
    _install()
    if (module := _executed(name)) is not None:
        listener(module)
    else:
        _listeners.setdefault(name, []).append(listener)


def replace(name: str, target: str, when: Callable[[], bool] = lambda: True) -> None:
    """Have imports of `name` give the module `target`, also where `name` has been imported already.

    A parent package of `name` must exist, or be replaced too.

    Args:
        name: the module that programs import.
        target: the module that they get.
        when: asked at the import, whether they do.
    """
    _install()
    _replacements[name] = (target, when)
    if name in sys.modules and when():
        _put(name, importlib.import_module(target))


def _executed(name: str) -> ModuleType | None:
    """Return a module that has been imported; None where it has not, or is being executed."""
    module = sys.modules.get(name)
    is_initializing = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if is_initializing else module


def _put(name: str, module: ModuleType) -> None:
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)


def _install() -> None:
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class _Finder(importlib.abc.MetaPathFinder):
    """Answers for the modules that somebody waits for, or that are replaced."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 (importlib's signature)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname in _replacements and _replacements[fullname][1]():
            return importlib.util.spec_from_loader(fullname, _ReplacementLoader())
        if fullname not in _listeners or fullname in _asking:
            return None
        _asking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            _asking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _WatchedLoader(spec.loader)
        return spec


class _ReplacementLoader(importlib.abc.Loader):
    """Puts another module in the place of the one that is imported."""

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what stands in sys.modules when this returns.
        name = module.__name__
        sys.modules[name] = importlib.import_module(_replacements[name][0])


class _WatchedLoader(importlib.abc.Loader):
    """Loads as the module's own loader does, then tells the listeners."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        # get_data, get_source and is_package, for whoever reads the package's own files.
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        # One that raises is kept, as the module is not; and a listener may add another.
        waiting = _listeners.get(module.__name__, [])
        while waiting:
            waiting[0](module)
            waiting.pop(0)
        _listeners.pop(module.__name__, None)


_FINDER = _Finder()
