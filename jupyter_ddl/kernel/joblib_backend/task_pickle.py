"""Pickles tasks without their large arrays, which each host is sent once, in a file that all of its ranks map.

As joblib's own processes get them: arrays of a megabyte and more, which tasks cannot write to. A file is named by its
content, so that an array is sent once in a block, however many calls use it, and again where it was changed.

Runs on: kernel.
"""

from __future__ import annotations

import io
import secrets
from hashlib import blake2b
from typing import Any

import numpy as np

from jupyter_ddl.host.task_arrays import cloudpickle, mapped
from jupyter_ddl.protocol.rank_files import TASK_ARRAYS

# joblib's own `max_nbytes`. Source: joblib 1.6, parallel.py
LARGE_BYTES = 1 << 20


class Arrays:
    """The large arrays of the tasks of a block, by the names of their files.

    Attributes:
        folder: where hosts keep them.
        by_name: all that tasks have used: each is kept until the block's end, for ranks that replace lost ones.
    """

    def __init__(self) -> None:
        self.folder = TASK_ARRAYS + secrets.token_hex(8)
        self.by_name: dict[str, np.ndarray[Any, Any]] = {}
        self._named: dict[tuple[Any, ...], tuple[str, np.ndarray[Any, Any]]] = {}

    def name(self, array: np.ndarray[Any, Any]) -> str:
        """Return the name of an array's file: of one that was named in this call, without another look at it."""
        place = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
        if place not in self._named:
            flat = _flat(array)
            name = blake2b(flat.view(np.uint8).data, digest_size=16).hexdigest()
            self.by_name.setdefault(name, flat)
            # The array itself is kept: another one could be put where it was.
            self._named[place] = name, array
        return self._named[place][0]

    def end_call(self) -> None:
        """Forget which arrays were named: they may be changed before the next call."""
        self._named.clear()


class _Pickler(cloudpickle().CloudPickler):  # type: ignore[misc]  # cloudpickle is untyped
    """A cloudpickle pickler that names large arrays in place of their values, and notes which."""

    def __init__(self, file: io.BytesIO, arrays: Arrays, used: list[str]) -> None:
        super().__init__(file, protocol=5)
        self._arrays = arrays
        self._used = used

    def reducer_override(self, value: Any) -> Any:
        if type(value) in (np.ndarray, np.memmap) and value.nbytes >= LARGE_BYTES and not value.dtype.hasobject:
            name = self._arrays.name(value)
            self._used.append(name)
            return mapped, (self._arrays.folder, name, value.dtype, value.shape, _order(value))
        return super().reducer_override(value)


def pickled(task: object, arrays: Arrays) -> tuple[bytes, tuple[str, ...]]:
    """Return a task as bytes, and the names of the large arrays that it uses."""
    file, used = io.BytesIO(), list[str]()
    _Pickler(file, arrays, used).dump(task)
    return file.getvalue(), tuple(dict.fromkeys(used))


def _order(array: np.ndarray[Any, Any]) -> str:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _flat(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a private, contiguous copy in one dimension, in the order in which the array is read."""
    return array.flatten(order="F" if _order(array) == "F" else "C")
