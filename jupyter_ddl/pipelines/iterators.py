"""Ends iterators over a tf.data.Dataset in threads of their own.

TensorFlow ends an iterator where Python drops its last reference, in the thread that does so, and waits there for the
iterator's own threads. That takes long in two cases. One is an element that is still being made. The other is a race
in TensorFlow: the thread that tunes the pipeline sleeps for as long as the iterator has lived, 60 seconds at most, and
is woken *before* the flag that it checks says that it must end. It sleeps again, and the thread that dropped the
iterator waits for it with Python's lock held: the rank answers no request, at the end of a loop or at an interrupt. (A
third of 60 pipelines that ran for 0.35 s on two idle cores, 57 of 60 on one core.)

So the reference to an iterator is taken over before Python drops it, and released where no other thread waits.

Source: tensorflow 2.21, core/framework/model.cc (Model::OptimizeLoop: the callback notifies, the loop asks IsCancelled)
and cancellation.cc (StartCancelWithStatus: `is_cancelled_` is set after the callbacks have run).

Runs on: every rank.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.patching import Layer, instead, patch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# The C++ function that returns an eager tensor's handle, by its mangled name, and the libraries one of which has it.
_HANDLE_OF = "_Z18EagerTensor_HandlePK7_object"
_LIBRARIES_OF_PYTHON = ("lib_pywrap_tensorflow_common.so", "_pywrap_tensorflow_internal.so")
_LIBRARY = "libtensorflow_cc.so.2"

_iterator_class: Any = None


def install(tensorflow: ModuleType) -> None:
    """Make iterators end in a thread of their own, once. Does nothing with a TensorFlow that hides what this needs."""
    global _iterator_class
    if _iterator_class is not None:
        return
    try:
        handles = _Handles(Path(tensorflow.__file__ or "").parent)
        from tensorflow.python.data.ops.iterator_ops import OwnedIterator

        eager_tensor = tensorflow.__internal__.EagerTensor
    except (OSError, AttributeError, ImportError):
        # Private to TensorFlow, which may move it: iterators then end as they always did.
        return
    if hasattr(OwnedIterator, "__del__"):
        return
    _iterator_class = OwnedIterator
    ends: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    patch(OwnedIterator, "__del__", _taking_over(handles.keep, ends, eager_tensor), Layer.DATA, instead)
    threading.Thread(target=_end_each, args=(handles.drop, ends), name="jupyter_ddl iterators", daemon=True).start()


class _Handles:
    """TensorFlow's references to the object behind an eager tensor.

    Args:
        folder: TensorFlow's package.

    Raises:
        OSError, AttributeError: this TensorFlow has them elsewhere.
    """

    def __init__(self, folder: Path) -> None:
        # With Python's lock: it reads a Python object.
        self._handle_of = _first_with(_HANDLE_OF, [folder / "python" / name for name in _LIBRARIES_OF_PYTHON])
        self._handle_of.argtypes, self._handle_of.restype = [ctypes.py_object], ctypes.c_void_p
        library = ctypes.CDLL(str(folder / _LIBRARY))
        self._copy = library.TFE_TensorHandleCopySharingTensor
        self._copy.argtypes, self._copy.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
        # Without Python's lock: this is what waits.
        self._delete = library.TFE_DeleteTensorHandle
        self._delete.argtypes, self._delete.restype = [ctypes.c_void_p], None
        library.TF_NewStatus.restype = ctypes.c_void_p
        self._status = library.TF_NewStatus()

    def keep(self, tensor: Any) -> int:
        """Return one more reference to the object of an eager tensor."""
        handle: int = self._copy(self._handle_of(tensor), self._status)
        return handle

    def drop(self, handle: int) -> None:
        """Release a reference that `keep` returned. Waits, with Python's lock free, for what ends by that."""
        self._delete(handle)


def _first_with(symbol: str, files: list[Path]) -> Any:
    for file in files:
        if file.exists() and hasattr(library := ctypes.PyDLL(str(file)), symbol):
            return getattr(library, symbol)
    raise AttributeError(f"None of {[file.name for file in files]} has {symbol}.")


def _taking_over(
    keep: Callable[[Any], int], ends: SimpleQueue[tuple[int, Any]], eager_tensor: type
) -> Callable[[Any], None]:
    """Return what Python calls when it drops an iterator."""

    def take_over(iterator: Any) -> None:
        attributes = vars(iterator)
        # An iterator within a graph is symbolic. At Python's exit no thread would release it any more.
        resource = attributes.get("_iterator_resource")
        if not isinstance(resource, eager_tensor) or sys.is_finalizing():
            return
        kept = keep(resource)
        try:
            # Python's own reference first: the thread that drops the last one waits.
            del resource, attributes["_iterator_resource"]
        finally:
            # The dataset has the Python functions that the iterator's threads may still call.
            ends.put((kept, attributes.get("_dataset")))

    return take_over


def _end_each(drop: Callable[[int], None], ends: SimpleQueue[tuple[int, Any]]) -> None:
    def end(handle: int, _dataset: Any) -> None:
        drop(handle)

    while True:
        # A thread for each: one that waits for an element that never comes must not keep the next one's memory. Started
        # here, since Python may drop an iterator anywhere, even where no thread can be started.
        threading.Thread(target=end, args=ends.get(), name="jupyter_ddl iterator", daemon=True).start()
