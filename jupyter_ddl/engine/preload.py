"""Imports TensorFlow with Keras and Horovod, or PyTorch, or JAX, in the background as soon as the rank starts.

Meanwhile the user reads the table of ranks and types a cell, whose `import tensorflow` then finds it done. What is not
chosen is not imported: a program that imports it waits for that itself.

Runs on: every rank.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import os
import re
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import TYPE_CHECKING

from jupyter_ddl.engine import devices
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, instead, patch
from jupyter_ddl.protocol.frameworks import NONE, imports_keras
from jupyter_ddl.protocol.rank_life import RankWarm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from jupyter_ddl.engine.collectives.horovod_runtime import HorovodRuntime
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.host.patching import Patch

# What a cell waits for while the framework is imported.
_IMPORTED = {"tensorflow": ("tensorflow", "keras", "horovod"), "torch": ("torch",), "jax": ("jax", "jaxlib"), NONE: ()}
# A cell that names one of these waits for it.
_NAMED = re.compile(r"\b(tensorflow|keras|horovod|hvd|jupyter_ddl)\b")

_LOWEST = 19
# The place of `level` among the arguments of an import after the name: 0 where the name is whole.
_LEVEL = 4


class Warmup:
    """The background imports of one rank.

    Args:
        world: this rank's.
        horovod: this rank's.
        framework: what to import, the same on all ranks: "tensorflow", "torch", "jax" or "none".
        threads: TensorFlow's.
        began_s: when the rank began, on the monotonic clock.

    Attributes:
        done: set when they have ended, well or not.
        report: of the result; None until `done`.
    """

    def __init__(self, world: World, horovod: HorovodRuntime, framework: str, threads: int, began_s: float) -> None:
        self._world = world
        self._horovod = horovod
        self._framework = framework
        self._threads = threads
        self._also = ("keras",) if imports_keras(framework) and framework != "tensorflow" else ()
        self._began_s = began_s
        import_hooks.import_once(
            *(package for packages in _IMPORTED.values() for package in packages if package != "keras")
        )
        self._thread = threading.Thread(target=self._warm_up, name="jupyter_ddl warm-up", daemon=True)
        self._listeners: list[Callable[[RankWarm], None]] = []
        self._lock = threading.Lock()
        self._keras_ended = threading.Event()
        self.done = threading.Event()
        self.report: RankWarm | None = None

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._hold_main_thread()
        self._thread.start()

    def is_needed_by(self, code: str) -> bool:
        """Return whether a cell's code names what is imported, so that it would wait anyway."""
        return _NAMED.search(code) is not None

    def stand_by(self, wait: Callable[[], None]) -> None:
        """Import at the lowest priority, touching no device, and call `wait`, which returns when the rank is wanted.

        To be called before `start`, which then finds all imported.
        """
        # Linux has a priority for each thread, and lets a user's process only lower it: this thread keeps its own.
        thread = threading.Thread(target=self._import_early, name="jupyter_ddl standby", daemon=True)
        thread.start()
        thread.join()
        if (why := import_hooks.cut_off(self._framework)) is not None:
            # It cannot be imported again here: ranks that are started when they are wanted can.
            sys.exit(f"Rank {self._world.rank} cannot stand by: the import of {self._framework} failed ({why}).")
        wait()
        self._began_s = time.monotonic()

    def _import_early(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
        with _without_collections():
            try:
                if self._framework == "tensorflow":
                    _import_tensorflow(self._horovod)
                    self._horovod.load()
                    _import_keras()
                else:
                    import_hooks.when_imported("horovod.common.basics", lambda _: self._horovod.watch())
                    _import_framework(self._framework)
            except Exception:  # noqa: BLE001  an import runs anybody's code
                # Into the log of the rank's process: what fails later may be an effect.
                traceback.print_exc()

    def when_done(self, listener: Callable[[RankWarm], None]) -> None:
        """Call `listener` with the report: now, if there is one, else when there is."""
        with self._lock:
            if self.report is None:
                self._listeners.append(listener)
                return
        listener(self.report)

    def _hold_main_thread(self) -> None:
        """Make the main thread's imports of these modules wait for ours.

        Two threads that import TensorFlow at once can each find the other's half-made modules; and a cell must not use
        Horovod while we initialise it. The cell's text does not say: it may import a module that imports them.

        Other threads of a cell do not wait, since our import may itself wait for a thread. But of an import that fails
        in one thread the import statement of another, which waited for it, gets the half-made module and no error (seen
        in CPython 3.10 to 3.13): that one imports again, and gets the error.
        """
        main, imported = threading.main_thread(), (*_IMPORTED[self._framework], *self._also)

        def held(stock: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
            package = name.partition(".")[0]
            if package not in imported:
                return stock(name, *arguments, **options)
            if threading.current_thread() is main:
                (self._keras_ended if package == "keras" else self.done).wait()
            found = stock(name, *arguments, **options)
            is_absolute = len(arguments) < _LEVEL or not arguments[_LEVEL - 1]
            return found if not is_absolute or package in sys.modules else stock(name, *arguments, **options)

        self._held_import = patch(builtins, "__import__", held, Layer.RANK)

    def _warm_up(self) -> None:
        with _without_collections():
            if self._framework == "tensorflow":
                self._report(*self._prepare_horovod())
                # Last, since no start-up step waits for it; a cell that imports Keras meanwhile waits for this import.
                _import_keras()
            else:
                import_hooks.when_imported("horovod.common.basics", lambda _: self._horovod.watch())
                self._report(*_import_alone(self._framework))
                if self._also:
                    _import_keras()
        self._held_import.undo()
        self._keras_ended.set()

    def _prepare_horovod(self) -> tuple[dict[str, str], str | None]:
        """Import TensorFlow and Horovod; return their versions, and what went wrong."""
        versions: dict[str, str] = {}
        problem = None
        try:
            _import_all(versions, self._horovod, self._threads)
        except Exception as error:  # noqa: BLE001  an import runs anybody's code
            # Without TensorFlow, or Horovod for it, the rank reports that and lives: plain Python cells run without
            # them.
            problem = f"{type(error).__name__}: {error}"
        if self._agree(problem is None):
            problem = _initialise_once(self._world, self._horovod)
        elif problem is None:
            problem = "another rank cannot import Horovod"
        if problem is not None:
            self._horovod.refuse(problem)
        return versions, problem

    def _report(self, versions: dict[str, str], problem: str | None) -> None:
        report = RankWarm(self._world.rank, versions, round(time.monotonic() - self._began_s, 2), problem)
        with self._lock:
            self.report = report
            listeners, self._listeners = self._listeners, []
        self.done.set()
        for listener in listeners:
            listener(report)

    def _agree(self, ready: bool) -> bool:
        """Return whether every rank is ready: initialising Horovod is collective, and one absent rank would hang it.

        Collective: every rank must call this.
        """
        import numpy as np
        from mpi4py import MPI

        mine, everyone = np.array([ready], dtype="i4"), np.zeros(1, dtype="i4")
        request = self._world.communicator.Iallreduce(mine, everyone, op=MPI.MIN)
        # A blocking MPI call spins, and would take the core from the ranks that still import.
        while not request.Test():
            time.sleep(0.005)
        return bool(everyone[0])


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause Python's garbage collector, and at the end exclude for good all objects that exist then.

    TensorFlow, Keras and Horovod make 400,000 objects that live as long as the process. Each collection of them takes
    0.2 s: while they are imported, after each cell that fails, in `keras.utils.clear_session()`, and now and then
    between two steps of a training, on each rank at another time, while all others wait for it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Else garbage that a cell has left meanwhile would stay for good, too.
        gc.collect()
        gc.freeze()
        if was_enabled:
            gc.enable()


def _import_all(versions: dict[str, str], horovod: HorovodRuntime, threads: int) -> None:
    versions["tensorflow"] = _import_tensorflow(horovod)
    devices.configure_tensorflow(threads)
    versions["horovod"] = horovod.load()
    versions["keras"] = metadata.version("keras")


def _import_tensorflow(horovod: HorovodRuntime) -> str:
    """Import TensorFlow, and return its version. Touches no device."""
    with suppress(ImportError):  # `load` reports it, when TensorFlow is there
        # TensorFlow may import Keras, and what is hooked to Keras imports horovod.tensorflow.
        horovod.watch()
    with _tf_print_to_its_stream():
        import tensorflow as tf
    return str(tf.__version__)


def _import_alone(framework: str) -> tuple[dict[str, str], str | None]:
    """Import PyTorch or JAX, or nothing; return its version, and what went wrong. Touches no device."""
    if framework == NONE:
        return {}, None
    try:
        return {framework: _import_framework(framework)}, None
    except Exception as error:  # noqa: BLE001  as above
        if not isinstance(error, ModuleNotFoundError):
            traceback.print_exc()
        return {}, f"{type(error).__name__}: {error}"


def _import_framework(framework: str) -> str:
    return str(importlib.import_module(framework).__version__) if framework != NONE else ""


@contextmanager
def _tf_print_to_its_stream() -> Iterator[None]:
    """Have `tf.print` write to the stream that it names, whether a cell runs while TensorFlow is imported or not.

    Where there is `get_ipython()`, as in a cell, TensorFlow would send all of it to Python's standard output.
    Source: tensorflow 2.21, python/ops/logging_ops.py, enable_interactive_logging
    """
    placed: list[Patch] = []

    def keep(module: ModuleType) -> None:
        placed.append(patch(module, "TFE_Py_EnableInteractivePythonLogging", _nothing, Layer.RANK, instead))

    import_hooks.when_imported("tensorflow.python.pywrap_tfe", keep)
    try:
        yield
    finally:
        for one in placed:
            one.undo()


def _nothing() -> None:
    pass


def _import_keras() -> None:
    # The cell that imports Keras gets the same error (an unknown KERAS_BACKEND is a ValueError).
    with suppress(Exception):
        importlib.import_module("keras")


def _initialise_once(world: World, horovod: HorovodRuntime) -> str | None:
    """Initialise Horovod and shut it down again: the first time is the slow one. Return what went wrong, if anything.

    Collective: every rank must call this.
    """
    try:
        horovod.initialise(world.communicator, on_subset=False)
        horovod.rest()
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None
