"""Restores what the rank's machinery needs and a cell may replace: names in builtins, json, time, os ...

A cell may replace one of these functions with another that does the same. A replacement with which a rank cannot send,
receive or wait is undone when the cell has ended, and the cell's output says so. So is every replaced builtin but
those that programs do replace, such as `print`.

Runs on: every rank, in the main thread.
"""

from __future__ import annotations

import asyncio
import builtins
import codecs
import collections
import contextlib
import functools
import hashlib
import heapq
import hmac
import inspect
import json
import logging
import os
import queue
import select
import selectors
import struct
import sys
import threading
import time
import traceback
import uuid
import warnings
import weakref
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import jupyter_client.session
import zmq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Names that programs do replace.
_THEIRS = {"print", "input", "open", "__import__", "breakpoint", "exit", "quit", "help", "copyright", "credits"}
_THEIRS |= {"license", "display", "get_ipython", "_", "__debug__", "__build_class__"}

# Where the replacement does not work as the checks here require, they are put back too.

# What a class and Python itself set again.
_VARY = {"__class__", "__hash__", "__subclasshook__", "__init_subclass__", "__loader__"}
_BUILTINS = ("print", "input", "open", "__import__", "__build_class__")
_OS = (
    "write",
    "read",
    "close",
    "open",
    "pipe",
    "dup",
    "dup2",
    "fstat",
    "stat",
    "getpid",
    "urandom",
    "fspath",
    "replace",
)
# All functions and classes of these.
_HOLDERS: tuple[Any, ...] = (
    *(json, json.encoder, json.decoder, time, threading, threading.Thread, threading.Event, threading.Condition),
    *(select, selectors, selectors.DefaultSelector, heapq, hmac, hmac.HMAC, hashlib, codecs, queue, queue.SimpleQueue),
    *(asyncio, asyncio.events, asyncio.events.Handle, asyncio.base_events.BaseEventLoop, asyncio.locks, asyncio.tasks),
    *(logging, logging.Logger, logging.Handler, logging.StreamHandler, traceback, warnings, uuid, struct, weakref),
    *(zmq.Socket, jupyter_client.session, jupyter_client.session.Session, inspect, functools, contextlib, collections),
)
# Not TensorFlow, which is being imported meanwhile, and restores modules itself.
_STACK = {
    *sys.stdlib_module_names,
    "IPython",
    "ipykernel",
    "ipyparallel",
    "jupyter_client",
    "zmq",
    "tornado",
    "traitlets",
}
_STACK |= {"psutil", "jupyter_ddl", "mpi4py", "dateutil"}
_MISSING = object()
_ANY_ERROR = Exception
# A thread starts at once; on a busy machine, later.
_THREAD_S = 5.0


class _Names:
    """Names in a module or class, and the values that they are to have.

    Attributes:
        holder: the module or class.
        held: its dictionary.
        names: which are looked at.
        values: of the names, the first one's twice.
    """

    def __init__(self, holder: Any, names: Iterable[str]) -> None:
        self.holder, self.held = holder, vars(holder)
        self.names = (*names,)
        self.shown = _name_of(holder)
        # In C, for a thousand names in each cell. Of one name alone it would return no tuple.
        self._read = itemgetter(*self.names, self.names[0])
        self.keep()

    def keep(self) -> None:
        """Have the names keep the values that they have now."""
        self.values: tuple[Any, ...] = self._read(self.held)

    def are_as_they_were(self) -> bool:
        """Return whether the values are the same objects, which tuples compare first."""
        try:
            is_same: bool = self._read(self.held) == self.values
        except _ANY_ERROR:  # a name is missing, or what stands there cannot be compared
            return False
        return is_same


class Foundations:
    """The objects that were there before any cell ran.

    Args:
        check: raises where the machinery cannot end a cell or begin the next one.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._recursion_limit = sys.getrecursionlimit()
        self._set_recursion_limit, self._recursion = sys.setrecursionlimit, sys.getrecursionlimit
        # Looked at with nothing but methods of dictionaries and tuples, which no cell can replace.
        self._needed = _Names(builtins, (name for name in vars(builtins) if name not in _THEIRS))
        used = [(builtins, _BUILTINS), (os, _OS), *((holder, _callables(holder)) for holder in _HOLDERS)]
        self._used = [_Names(holder, names) for holder, names in used]
        self._modules = {name: module for name, module in sys.modules.copy().items() if name.split(".")[0] in _STACK}
        # Bound here: a cell may have replaced them in the module that this is.
        self._set, self._all, self._map, self._zip = setattr, all, map, zip

    def put_back(self, *, without_asking: bool = False) -> list[str]:
        """Put back what the machinery needs; return the names.

        Args:
            without_asking: also replacements that might work.
        """
        changed = []
        if not self._needed.are_as_they_were():
            changed += self._restore(self._needed)
        if self._recursion() < self._recursion_limit:
            self._set_recursion_limit(self._recursion_limit)
            changed.append("sys.setrecursionlimit")
        # In C: each cell asks for a thousand.
        if not self._modules.keys() <= sys.modules.keys():
            for name in self._modules.keys() - sys.modules.keys():
                sys.modules[name] = self._modules[name]
            changed.append("sys.modules")
        replaced = [used for used in self._used if not used.are_as_they_were()]
        if replaced:
            if without_asking or not self._works(replaced):
                for used in replaced:
                    changed += self._restore(used)
            else:
                # From here on these names are the program's.
                for used in replaced:
                    used.keep()
        return changed

    def _restore(self, used: _Names) -> list[str]:
        changed = []
        for name, value in self._zip(used.names, used.values):
            if used.held.get(name, _MISSING) is not value:
                self._set(used.holder, name, value)
                changed.append(used.shown + "." + name)
        return changed

    def _works(self, replaced: Sequence[_Names]) -> bool:
        for used in replaced:
            if not self._all(self._map(callable, self._map(used.held.get, used.names))):
                return False
        try:
            self._check()
        except Exception:  # noqa: BLE001  whatever a replaced function raises, it is not what the machinery needs
            return False
        return True


class Objects:
    """The kernel's own objects, through whose methods each cell comes; a cell reaches them by `get_ipython()`.

    Args:
        parts: object -> its attributes that must stay what they are.
    """

    def __init__(self, parts: Sequence[tuple[Any, Sequence[str]]]) -> None:
        self._parts = [(owner, name, getattr(owner, name)) for owner, names in parts for name in names]
        self._methods = [(owner, dict(vars(owner))) for owner, _ in parts]

    def put_back(self) -> list[str]:
        """Put back what a cell replaced; return the names."""
        changed = []
        for owner, name, value in self._parts:
            if getattr(owner, name, None) is not value:
                setattr(owner, name, value)
                changed.append(f"{type(owner).__name__}.{name}")
        for owner, before in self._methods:
            for name in [
                name for name in vars(owner) if name not in before and callable(getattr(type(owner), name, None))
            ]:
                delattr(owner, name)
                changed.append(f"{type(owner).__name__}.{name}")
        return changed


def _callables(holder: Any) -> tuple[str, ...]:
    return tuple(name for name, value in vars(holder).items() if callable(value) and name not in _VARY)


def _name_of(holder: Any) -> str:
    return f"{holder.__module__}.{holder.__name__}" if isinstance(holder, type) else str(holder.__name__)


def check_functions() -> None:
    """Raise where no file, module, thread or pipe can be opened or made, or a clock runs backwards."""
    if not all(map(callable, (print, input, __build_class__))):
        raise TypeError("A function must be one.")
    with open(os.devnull) as nothing:  # noqa: PTH123  this is the function that is to be tried
        nothing.read()
    __import__("json")
    sender: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
    receiver: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
    try:
        receiver.bind("inproc://jupyter_ddl-check")
        sender.connect("inproc://jupyter_ddl-check")
        sender.send_multipart([b"x", b"y"])
        if receiver.recv_multipart() != [b"x", b"y"]:
            raise RuntimeError("A message must arrive as it was sent.")
    finally:
        sender.close()
        receiver.close()
    ran = threading.Event()
    threading.Thread(target=ran.set, name="jupyter_ddl check", daemon=True).start()
    began_s = time.monotonic()
    time.sleep(0.0)
    reader, writer = os.pipe()
    try:
        if os.write(writer, b"x") != 1 or os.read(reader, 1) != b"x" or not ran.wait(_THREAD_S):
            raise RuntimeError("A descriptor, or a thread, does not do what it should.")
    finally:
        os.close(reader)
        os.close(writer)
    if time.monotonic() - began_s < 0.0 or time.time() < 0.0:
        raise RuntimeError("A clock must not run backwards.")
