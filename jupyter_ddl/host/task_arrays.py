"""Keeps the large arrays of joblib's tasks in files of a host, which all of its ranks map.

Runs on: every rank; the kernel names `mapped` in what it pickles, by the same cloudpickle.
"""

from __future__ import annotations

import importlib
import math
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host import files
from jupyter_ddl.host.private_folders import private_folder

if TYPE_CHECKING:
    import numpy as np

# The rank of this host that gets the array may be behind the one that waits for it.
_LOOK_S = 0.01


def keep(folder: str, name: str, values: Any) -> None:
    """Keep an array in a file.

    Args:
        folder: in the folder of temporary files, which the ranks of a host share.
        name: the file's.
        values: the array's bytes.

    Raises:
        OSError: it cannot be written.
    """
    with files.replacing(private_folder(_path(folder), variable="TMPDIR") / name) as file:
        file.write(values)


def drop(folder: str) -> None:
    """Remove all arrays of a folder. One that a process still maps stays in its memory."""
    shutil.rmtree(_path(folder), ignore_errors=True)


def mapped(folder: str, name: str, dtype: Any, shape: tuple[int, ...], order: str) -> np.ndarray[Any, Any]:
    """Return an array that cannot be written to, once its host has it.

    Args:
        folder: as of `keep`.
        name: likewise.
        dtype: of its values.
        shape: the array's.
        order: "C" or "F", in which the values stand in the file.
    """
    import numpy as np

    path, pause = _path(folder) / name, threading.Event()
    while not path.exists():
        # An interrupt ends it.
        pause.wait(_LOOK_S)
    flat = np.memmap(path, dtype, "r", shape=(math.prod(shape),))
    return flat.reshape(shape, order="F" if order == "F" else "C")


def cloudpickle() -> Any:
    """Return cloudpickle, which joblib takes as a library of its own from 1.6 on, and has in itself before."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return importlib.import_module("joblib.externals.cloudpickle")


def _path(folder: str) -> Path:
    return Path(tempfile.gettempdir()) / folder
