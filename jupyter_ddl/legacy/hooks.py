"""Waits for Keras and TensorFlow to be imported, and then applies the table's functions to them.

The rank's import finder (`host/import_hooks.py`) calls `_imported` when one of their public modules has run, and
`_spec_of_missing` for modules that Keras no longer has.
"""

from __future__ import annotations

import importlib
import sys
import threading
from importlib import metadata
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host import import_hooks
from jupyter_ddl.legacy import names
from jupyter_ddl.protocol.old_spellings import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_ROOTS = ("keras", "tensorflow")
_V1 = "tensorflow.compat.v1"
_changed: set[str] = set()
_lock = threading.RLock()


def install() -> None:
    """Wait for the imports, and change what has been imported already."""
    import_hooks.whenever_imported(_is_changed, _imported)
    import_hooks.serve_missing(_is_served, _spec_of_missing)
    for name in _ROOTS:
        # Not one that is being imported: it has what is to be changed only when it has run. A rank installs before
        # its warm-up begins to import.
        module = import_hooks.executed(name)
        if module is not None:
            _imported(module)


def _is_changed(fullname: str) -> bool:
    return fullname in (*_ROOTS, _V1) or names.is_interface(fullname)


def _is_served(fullname: str) -> bool:
    if fullname.partition(".")[0] not in _ROOTS:
        return False
    return (names.refusal(fullname) is not None or names.served(fullname) is not None) and _is_keras_3()


def _spec_of_missing(fullname: str) -> ModuleSpec | None:
    """Return the spec of a module that stands in for one that is gone, or None.

    Raises:
        ImportError: a name, or a module, that is refused. `from keras.layers import Name` comes here too, after the
            module itself has said that it has no such attribute, which Python then does not show.
    """
    if (text := names.refusal(fullname)) is not None:
        raise ImportError(text, name=fullname)
    target = names.served(fullname)
    return None if target is None else names.spec_of(fullname, target)


def _imported(module: ModuleType) -> None:
    """Change a module that has just run."""
    name = module.__name__
    if not _is_keras_3() or _is_on_another_backend():
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


def _is_on_another_backend() -> bool:
    """Return whether Keras computes without TensorFlow: old programs, whose spellings these are, do not."""
    config = getattr(sys.modules.get("keras"), "config", None)
    return config is not None and config.backend() != "tensorflow"


def _is_keras_3() -> bool:
    keras = sys.modules.get("keras")
    version = getattr(keras, "__version__", None)
    if version is None:
        try:
            version = metadata.version("keras")
        except metadata.PackageNotFoundError:
            return False
    return int(version.partition(".")[0]) >= 3
