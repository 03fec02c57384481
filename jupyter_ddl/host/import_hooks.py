"""Provides the one import finder of a rank, which acts when a module is imported, without importing it.

It calls listeners when a module has run, gives another module in a module's place, and serves modules that no longer
exist. Ranks and scripts must be ready for a program that imports TensorFlow, Keras and Horovod in any order, or never,
so nothing heavy may be imported to change it.

Runs on: every rank.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


_REFUSAL = (
    "{0} is imported once in a process. Received: an import after one that ended half-way ({1}). "
    "Start the ranks again: %ddl restart"
)


def when_imported(name: str, listener: Callable[[ModuleType], None]) -> None:
    """Call `listener` with a module once it has been executed: now, if it has been already.

    Args:
        name: the module's full name.
        listener: called in the importing thread, before the import statement returns, which raises what it raises.
    """
    _install()
    if (module := executed(name)) is not None:
        listener(module)
    else:
        _FINDER.listeners.setdefault(name, []).append(listener)


def whenever_imported(matches: Callable[[str], bool], listener: Callable[[ModuleType], None]) -> None:
    """Call `listener` with each module that is executed from now on, once the listeners of `when_imported` have run.

    Args:
        matches: whether the listener is to be called for a module, by its full name.
        listener: as in `when_imported`. The same pair is added once.
    """
    _install()
    if (matches, listener) not in _FINDER.watchers:
        _FINDER.watchers.append((matches, listener))


def replace(
    name: str, target: str, when: Callable[[], bool] = lambda: True, then: Callable[[], None] = lambda: None
) -> None:
    """Make imports of `name` give the module `target`, even where `name` has been imported already.

    A parent package of `name` must exist, or be replaced too.

    Args:
        name: the module that programs import.
        target: the module that they get.
        when: called at the import; returns whether they do.
        then: called when a program has imported it.
    """
    _install()
    _FINDER.replacements[name] = (target, when, then)
    if name in sys.modules and when():
        _put(name, importlib.import_module(target))


def replaced() -> dict[str, str]:
    """Return the modules that imports give in the place of others: the other's name -> the module's."""
    return {name: target for name, (target, when, _) in _FINDER.replacements.items() if when()}


def forget(name: str) -> None:
    """Have the next import of a module ask the finders, though it has been imported; its importers keep theirs."""
    module = sys.modules.pop(name, None)
    parent, _, child = name.rpartition(".")
    held = vars(sys.modules[parent]) if parent in sys.modules else {}
    if module is not None and held.get(child) is module:
        del held[child]


def put_back() -> None:
    """Give imports the modules that `replace` has replaced; what has been imported already stays with its importer."""
    for name, (target, *_) in _FINDER.replacements.items():
        if name in sys.modules and sys.modules[name] is sys.modules.get(target):
            forget(name)
    _FINDER.replacements.clear()


def serve_missing(is_served: Callable[[str], bool], find: Callable[[str], ModuleSpec | None]) -> None:
    """Serve modules that no other finder knows.

    Args:
        is_served: whether a module, by its full name, is to be served where it is missing.
        find: returns its spec, or raises the ImportError that says why there is none. The same pair is added once.
    """
    _install()
    if (is_served, find) not in _FINDER.servers:
        _FINDER.servers.append((is_served, find))


def import_once(*packages: str) -> None:
    """Refuse to import these packages again where an import of one ends half-way, with an error or an interrupt.

    Python forgets such a package and keeps its submodules, so the next import makes one of halves: "partially
    initialized module 'torch' has no attribute 'cuda'". Without them torch's C++ part, which is loaded once, ends the
    import with a SystemError (torch 2.13).
    """
    _install()
    _FINDER.once.update(packages)


def cut_off(package: str) -> str | None:
    """Return why the import of a package of `import_once` ended half-way; None where it did not."""
    return _FINDER.cut_off.get(package)


def executed(name: str) -> ModuleType | None:
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
    """Finds the modules that a listener waits for, that are replaced, or that are served where they are missing.

    Attributes:
        listeners: by the module's name; each is called once.
        watchers: called for each module that matches.
        replacements: by the module's name: the other module's, whether it is wanted, and what is called then.
        servers: of missing modules.
        once: packages that cannot be imported again.
        cut_off: those whose import has ended half-way, and why.
    """

    def __init__(self) -> None:
        self.listeners: dict[str, list[Callable[[ModuleType], None]]] = {}
        self.watchers: list[tuple[Callable[[str], bool], Callable[[ModuleType], None]]] = []
        self.replacements: dict[str, tuple[str, Callable[[], bool], Callable[[], None]]] = {}
        self.servers: list[tuple[Callable[[str], bool], Callable[[str], ModuleSpec | None]]] = []
        self.once: set[str] = set()
        self.cut_off: dict[str, str] = {}
        # Modules that the other finders are looking for: one of them may ask all finders in turn.
        self._asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self.replacements and self.replacements[fullname][1]():
            return importlib.util.spec_from_loader(fullname, _ReplacementLoader())
        if fullname in self._asking:
            return None
        if fullname in self.cut_off:
            raise ImportError(_REFUSAL.format(fullname, self.cut_off[fullname]), name=fullname)
        is_awaited = (
            fullname in self.once
            or fullname in self.listeners
            or any(matches(fullname) for matches, _ in self.watchers)
        )
        servers = [find for is_served, find in self.servers if is_served(fullname)]
        if not is_awaited and not servers:
            return None
        self._asking.add(fullname)
        try:
            spec = self._found_by_others(fullname, path, target)
        finally:
            self._asking.discard(fullname)
        if spec is None or (servers and spec.loader is None):
            # A folder that merely has the name is no module of the program's.
            return next((served for find in servers if (served := find(fullname)) is not None), spec)
        if is_awaited and spec.loader is not None:
            spec.loader = _WatchedLoader(spec.loader)
        return spec

    def _found_by_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec: ModuleSpec | None = find(fullname, path, target)
                if spec is not None:
                    return spec
        return None

    def note_failure(self, package: str, error: BaseException) -> None:
        """Note that a package's import has failed. Called while its import lock is held: no thread imports it now."""
        # Other threads import meanwhile: a list is made of the whole at once.
        parts = [name for name in list(sys.modules) if name.startswith(f"{package}.")]
        if package in self.once and parts:
            self.cut_off[package] = f"{type(error).__name__}: {error}".rstrip(": ") + _place_of(error)
            for name in parts:
                del sys.modules[name]

    def call_listeners(self, module: ModuleType) -> None:
        """Call all listeners of a module that has just run."""
        name = module.__name__
        # A listener that raises is kept, since the module is not; and a listener may add another.
        waiting = self.listeners.get(name, [])
        while waiting:
            waiting[0](module)
            waiting.pop(0)
        self.listeners.pop(name, None)
        for matches, listener in list(self.watchers):
            if matches(name):
                listener(module)


def _place_of(error: BaseException) -> str:
    """Return where an error was raised, as the end of a sentence; nothing where that is not known."""
    frames = traceback.extract_tb(error.__traceback__)
    return f", in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""


class _ReplacementLoader(importlib.abc.Loader):
    """Puts another module in the place of the one that is imported."""

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what stands in sys.modules when this returns.
        name = module.__name__
        target, _, then = _FINDER.replacements[name]
        sys.modules[name] = importlib.import_module(target)
        then()


class _WatchedLoader(importlib.abc.Loader):
    """Loads as the module's own loader does, then calls the listeners; it leaves no trace in the module."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        # get_data, get_source and is_package, for code that reads the package's own files.
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException as error:
            _FINDER.note_failure(module.__name__, error)
            raise
        # TensorFlow puts another object in the module's place while it runs.
        _FINDER.call_listeners(sys.modules.get(module.__name__, module))


_FINDER = _Finder()
