"""Records which computations of JAX this rank has begun that exchange data with other ranks.

JAX keeps no such record. A compiled function is called in C++ from its second call on, and Python sees no more of it.
So a function whose computation exchanges is called through a second one: the first keeps no computation, and asks
Python at each call, which notes it and calls the second, as fast as before. On two cores that took 6 of 71 microseconds
(JAX 0.10.2, two ranks, the sum of one number each). Functions that exchange nothing are called as ever.

Source: jax 0.10.2, jax/_src/pjit.py, _cpp_pjit (what `cache_miss` returns decides whether C++ keeps the computation);
jax/_src/interpreters/pxla.py, ExecuteReplicated and create_cpp_call.

Runs on: every rank. Nothing here imports JAX.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.protocol.xla_names import COLLECTIVES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

# As XLA's text of a program has them.
_EXCHANGES = tuple(f" {name}" for name in COLLECTIVES)
_KEPT = 256
# How many of pjit's further arguments come before the store.
_WITHOUT_STORE = 5
# What JAX's own functions compute by, and the modules of those that programs call.
_INNER = ("_identity_fn", "_psum", "_fun")
_MULTIHOST, _PMAP = "jax.experimental.multihost_utils", "jax._src.pmap"


@dataclass(eq=False)
class Call:
    """One computation that was begun.

    Attributes:
        name: what was called, e.g. "jit(step)".
        group: the ranks that exchange, e.g. "0,1".
        number: of the computation among those of the group, from 1.
        result: an array that it makes; None where it is not known, or has gone.
        is_inside: JAX has not returned from its call.
    """

    name: str
    group: str
    number: int
    result: Callable[[], Any] | None = None
    is_inside: bool = True

    def waits(self) -> bool:
        """Return whether it has not ended, as far as is known."""
        if self.is_inside:
            return True
        array = self.result() if self.result is not None else None
        try:
            return array is not None and not array.is_ready()
        except RuntimeError:
            # It was given to another computation, or its processes have ended.
            return False


@dataclass(eq=False)
class _Second:
    """The function through which one is called whose computations exchange, once there is one."""

    function: Callable[..., Any] | None = None


class _Here(threading.local):
    """Of one thread: the computation whose call is noted now, and the one that was noted last."""

    call: Call | None = None
    last: Call | None = None


class Calls:
    """The computations of one rank since its processes of JAX were made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exchanging: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()
        self._here = _Here()
        self._seconds: weakref.WeakSet[_Second] = weakref.WeakSet()
        self._processes_of = functools.lru_cache(_KEPT)(_processes)
        self.begin()

    def __reduce__(self) -> tuple[type[Calls], tuple[()]]:
        """Be pickled empty: cloudpickle takes a function of `jit` with all that it calls."""
        return Calls, ()

    def install(self) -> None:
        """Note computations from here on; to be called before JAX is imported, which makes functions then."""
        import_hooks.when_imported("jaxlib._jax", self._install_functions)
        import_hooks.when_imported("jax._src.interpreters.pxla", self._install_execution)

    def _install_functions(self, module: ModuleType) -> None:
        patch(module, "pjit", self.made, Layer.RANK)

    def _install_execution(self, module: ModuleType) -> None:
        patch(module.ExecuteReplicated, "__call__", self.execute, Layer.RANK)

    def begin(self) -> None:
        """Begin again: processes are made."""
        self._counts: dict[str, int] = {}
        self._recent: deque[Call] = deque(maxlen=_KEPT)
        self.forget()

    def forget(self) -> None:
        """Keep nothing of the processes that end: their devices hold the connection to JAX's service."""
        self._processes_of.cache_clear()
        with self._lock:
            for second in self._seconds:
                second.function = None

    def counts(self) -> dict[str, int]:
        """Return how many computations this rank has begun, by the ranks that exchange."""
        with self._lock:
            return dict(self._counts)

    def waits(self) -> bool:
        """Return whether one of them has not ended, as far as is known."""
        with self._lock:
            recent = list(self._recent)
        return any(call.waits() for call in recent)

    def latest(self) -> str | None:
        """Return the name of the one that was begun last."""
        with self._lock:
            return self._recent[-1].name if self._recent else None

    def name_of(self, group: str, number: int) -> str | None:
        """Return the name of a group's computation; None where it is long past."""
        with self._lock:
            return next((one.name for one in self._recent if (one.group, one.number) == (group, number)), None)

    @contextmanager
    def noting(self, name: str, group: str) -> Iterator[Call]:
        """Note a computation that the block begins; one that raises has not begun."""
        with self._lock:
            number = self._counts[group] = self._counts.get(group, 0) + 1
            call = Call(name, group, number)
            self._recent.append(call)
        here = self._here
        outer, here.call, here.last = here.call, call, call
        try:
            yield call
        except BaseException:
            with self._lock:
                self._counts[group] = number - 1
                self._recent = deque((one for one in self._recent if one is not call), maxlen=_KEPT)
            raise
        finally:
            here.call = outer
            call.is_inside = False

    def made(self, stock: Callable[..., Any], name: str, function: Any, miss: Callable[..., Any], *rest: Any) -> Any:
        """Replace what makes a function that C++ calls: where its computations exchange, each call is noted.

        Args:
            stock: makes one.
            name: the function's.
            function: the program's; None where the computation is compiled already.
            miss: called where C++ has kept no computation; returns the results, what C++ is to keep, and a flag.
            rest: static arguments, keys, how arguments are sharded, and where C++ keeps computations.
        """
        second = _Second()
        with self._lock:
            self._seconds.add(second)
        # The ranks that exchange, where no argument says it.
        always: list[str] = []

        def noted_miss(*args: Any, **kwargs: Any) -> Any:
            noted, group = second.function, None
            if noted is not None and _is_no_trace():
                group = self._group_of((args, kwargs)) or next(iter(always), None)
            if noted is not None and group is not None:
                with self.noting(_shown(name), group) as call:
                    results = noted(*args, **kwargs)
                    call.result = _first_array(results)
                return results, None, False
            before = self._here.last
            results, data, flag = miss(*args, **kwargs)
            last = self._here.last
            if last is None or last is before:
                return results, data, flag
            if second.function is None:
                # Without the store of computations that functions share, in which the first one would find them.
                second.function = stock(name, None, miss, *rest[:_WITHOUT_STORE])
            if self._group_of((args, kwargs)) is None:
                always[:] = [last.group]
            return results, None, flag

        return stock(name, function, noted_miss, *rest)

    def execute(self, stock: Callable[..., Any], execute: Any, *args: Any) -> Any:
        """Replace the call of a computation from Python: note it, unless the function's call has been noted."""
        group = self._group_of_computation(execute)
        if group is None or self._here.call is not None:
            return stock(execute, *args)
        with self.noting(_shown(execute.name), group) as call:
            results = stock(execute, *args)
            call.result = _first_array(results)
        return results

    def _group_of(self, arguments: Any) -> str | None:
        return next(filter(None, (self._processes_of(array.sharding) for array in _arrays(arguments))), None)

    def _group_of_computation(self, execute: Any) -> str | None:
        """Return the ranks that exchange in a computation; None where none do."""
        if execute not in self._exchanging:
            group = next(filter(None, map(self._processes_of, _shardings(execute))), None)
            if group is not None:
                text = "".join(module.to_string() for module in execute.xla_executable.hlo_modules())
                group = group if any(word in text for word in _EXCHANGES) else None
            self._exchanging[execute] = group
        return self._exchanging[execute]


def _shardings(execute: Any) -> Iterator[Any]:
    yield from execute.in_handler.in_shardings
    yield from execute.out_handler.out_shardings


def _processes(sharding: Any) -> str | None:
    """Return the processes over which an array is spread, e.g. "0,1"; None where it is on this one alone."""
    if getattr(sharding, "is_fully_addressable", True):
        return None
    return ",".join(map(str, sorted({device.process_index for device in sharding.device_set})))


def _is_no_trace() -> bool:
    """Return whether functions compute what they are called with, and are not traced."""
    return bool(sys.modules["jax._src.core"].trace_state_clean())


def _arrays(values: Any) -> Iterator[Any]:
    """Yield the arrays in what a function takes or returns."""
    kind = sys.modules["jaxlib._jax"].ArrayImpl
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if type(value) is kind:
            yield value
        elif isinstance(value, (list, tuple)):
            waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif value is not None and not isinstance(value, (int, float, str)) and not hasattr(value, "dtype"):
            leaves = sys.modules["jax"].tree_util.tree_leaves(value)
            # A node of the program's own, as a state of Flax.
            waiting += (leaf for leaf in leaves if leaf is not value)


def _first_array(results: Any) -> Callable[[], Any] | None:
    array = next(_arrays(results), None)
    return None if array is None else weakref.ref(array)


def _shown(name: str) -> str:
    """Return a computation's name for people: of JAX's own functions, that of the one which the program has called."""
    name = name.removeprefix("jit(").removesuffix(")")
    found, frame = None, sys._getframe(1) if name in _INNER else None
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module == _PMAP:
            return "pmap"
        found, frame = (frame if module == _MULTIHOST else found), frame.f_back
    if found is None:
        return f"jit({name})"
    given = found.f_locals.get("name")
    return f"{found.f_code.co_name}({repr(given) if isinstance(given, str) else ''})"
