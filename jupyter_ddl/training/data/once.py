"""Arrays that one rank of a host loads, and all of its ranks share: in memory once, and not once a rank.

Runs on: every rank.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.collectives import barrier, require_horovod

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A file there is memory; elsewhere it is the disk's cache, as good while there is memory to spare.
_MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of our own in it, of mode 0700)


def load_once(load: Callable[[], Any]) -> Any:
    """Return what `load` returns, called on one rank of each host; the host's ranks share its arrays' memory.

    A rank that writes into an array changes its own copy of that page, as if it had loaded the array itself. No file
    is left: what the arrays stand in is freed with them.

    Collective: every rank must call this.

    Args:
        load: returns a NumPy array, or a structure (tuple, list, dict) of them; e.g. `keras.datasets.mnist.load_data`.

    Raises:
        InvalidInput: Horovod is not initialised; a part of the answer is no array of numbers.
    """
    require_horovod("jupyter_ddl.data.load_once")
    is_loader = hvd.local_rank() == 0
    folder = None
    answer = None
    try:
        if is_loader:
            loaded = load()
            arrays = [_checked(part) for part in tf.nest.flatten(loaded)]
            folder = _folder_for(sum(array.nbytes for array in arrays))
            for i, array in enumerate(arrays):
                np.save(folder / f"{i}.npy", array)
            answer = (str(folder), tf.nest.map_structure(lambda _: None, loaded), len(arrays))
        everyone = hvd.allgather_object((socket.gethostname(), answer), name="load_once")
        here = next(told for host, told in everyone if host == socket.gethostname() and told is not None)
        shared = _mapped(*here)
        barrier()
        return shared
    finally:
        if folder is not None:
            # Mapped by all, or given up: the memory goes when the last of them lets go of it.
            shutil.rmtree(folder)


def _mapped(folder: str, structure: Any, count: int) -> Any:
    arrays = []
    for i in range(count):
        file = Path(folder) / f"{i}.npy"
        arrays.append(np.load(file, mmap_mode=None if _is_empty(file) else "c"))
    return tf.nest.pack_sequence_as(structure, arrays)


def _is_empty(file: Path) -> bool:
    """Return whether a file holds an array without elements, which cannot be mapped."""
    with file.open("rb") as opened:
        np.lib.format.read_magic(opened)
        shape, _, _ = np.lib.format.read_array_header_1_0(opened)
    return 0 in shape


def _checked(part: Any) -> Any:
    array = np.asarray(part)
    if array.dtype.hasobject:
        raise InvalidInput(
            "jupyter_ddl.data.load_once shares arrays of numbers.",
            f"{type(part).__module__}.{type(part).__name__} of dtype {array.dtype}",
            "Return NumPy arrays of a fixed dtype.",
        )
    return array


def _folder_for(size_bytes: int) -> Path:
    candidates: Sequence[Path] = (_MEMORY, Path(tempfile.gettempdir()))
    for parent in candidates:
        if parent.is_dir() and shutil.disk_usage(parent).free > size_bytes:
            return Path(tempfile.mkdtemp(prefix="jupyter_ddl-", dir=parent))
    raise InvalidInput(
        "What is loaded once is put where all ranks of the host find it.",
        f"{size_bytes:,} bytes, and less room than that in {' and '.join(map(str, candidates))}",
        "Set TMPDIR to a folder with room.",
    )
