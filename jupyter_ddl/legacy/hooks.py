"""Waits for Keras and TensorFlow to be imported, and has the table's functions change them then.

Two finders stand in `sys.meta_path`. The first sees the import of a module that is to be changed, lets the others find
it, and changes it when it has run. The last serves the names of modules that Keras no longer has: only what no other
finder knows reaches it.
"""

from __future__ import annotations

import importlib
import sys
import threading
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

from jupyter_ddl.legacy import names
from jupyter_ddl.legacy.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_ROOTS = ("keras", "tensorflow")
_V1 = "tensorflow.compat.v1"
_changed: set[str] = set()
_lock = threading.RLock()


def install() -> None:
    """Put the finders in place, and change what has been imported already."""
    if not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())
        sys.meta_path.append(_Server())
    for name in _ROOTS:
        module = sys.modules.get(name)
        # Not one that is being imported: it has what is to be changed only when it has run. A rank installs before
        # its warm-up begins to import.
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            _imported(module)


def _imported(module: ModuleType) -> None:
    """Change a module that has just run."""
    name = module.__name__
    if not _is_keras_3():
        return
    with _lock:
        if name in _ROOTS and name not in _changed:
            _changed.add(name)
            for installer in _installers(name):
                installer(module)
            if name == "keras":
                _module("gone").refuse_gone(module)
        if name == "keras":
            names.apply_to_loaded()
        elif name == _V1:
            _module("sessions").patch_v1(module)
        elif name not in _ROOTS:
            names.apply(module)


def _installers(root: str) -> list[Callable[[ModuleType], None]]:
    """Return the functions of the rows that wait for `root`, each once, in the table's order."""
    functions = []
    for path in dict.fromkeys(row.installed_by for row in ROWS if row.root == root):
        module, _, function = path.partition(".")
        functions.append(getattr(_module(module), function))
    return functions


def _module(name: str) -> Any:
    """Return a module of ours. Late: a rank installs before it does anything else, and these import NumPy."""
    return importlib.import_module(f"jupyter_ddl.legacy.{name}")


def _is_keras_3() -> bool:
    keras = sys.modules.get("keras")
    version = getattr(keras, "__version__", None)
    if version is None:
        try:
            version = metadata.version("keras")
        except metadata.PackageNotFoundError:
            return False
    return int(version.partition(".")[0]) >= 3


class _Watcher(MetaPathFinder):
    """Finds, through the other finders, what is to be changed after its import."""

    def __init__(self) -> None:
        # Another finder may ask all finders in turn, as `jupyter_ddl.engine.import_hooks` does.
        self._asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders have, with a loader that tells us when the module has run."""
        if fullname in self._asking or (fullname not in (*_ROOTS, _V1) and not names.is_interface(fullname)):
            return None
        self._asking.add(fullname)
        try:
            return self._find(fullname, path, target)
        finally:
            self._asking.discard(fullname)

    def _find(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and not isinstance(finder, _Server):
                    spec.loader = _ThenChange(spec.loader)
                return spec
        return None


class _ThenChange(Loader):
    """The loader of a module that is changed once it has run; it leaves no trace in the module."""

    def __init__(self, stock: Loader) -> None:
        self._stock = stock

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module as its own loader makes it."""
        return self._stock.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and change it."""
        module.__loader__ = self._stock
        if module.__spec__ is not None:
            module.__spec__.loader = self._stock
        self._stock.exec_module(module)
        # TensorFlow puts another object in the module's place while it runs.
        _imported(sys.modules.get(module.__name__, module))


class _Server(MetaPathFinder):
    """Finds the modules that Keras no longer has, and says of names that are not served what to write instead."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that stands in for one that is gone, or None.

        Raises:
            ImportError: a name, or a module, that is refused. `from keras.layers import Name` comes here too, after
                the module itself has said that it has no such attribute, which Python then does not show.
        """
        if fullname.partition(".")[0] not in _ROOTS or not _is_keras_3():
            return None
        if (text := names.refusal(fullname)) is not None:
            raise ImportError(text, name=fullname)
        target: Any = names.served(fullname)
        return None if target is None else names.spec_of(fullname, target)
