"""Loads arrays on one rank of a host, and shares their memory among all of its ranks.

Runs on: every rank.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.pipelines.owned_folders import passing_folder
from jupyter_ddl.pipelines.storage import PLACES, RAMDISK, first_with_room
from jupyter_ddl.protocol.number_texts import size
from jupyter_ddl.training.collectives import barrier
from jupyter_ddl.training.requirements import require_horovod

if TYPE_CHECKING:
    from collections.abc import Callable


def load_once(load: Callable[[], Any]) -> Any:
    """Return what `load` returns, called on one rank of each host; the host's ranks share its arrays' memory.

    A rank that writes into an array changes its own copy of that page, as if it had loaded the array itself. No file
    is left: the arrays' memory is freed with them.

    Collective: every rank must call this.

    Args:
        load: returns a NumPy array, or a structure (tuple, list, dict) of them; e.g. `keras.datasets.mnist.load_data`.

    Raises:
        InvalidInput: Horovod is not initialised; a part of the answer is no array of numbers; there is no room for it.

    Example:
        >>> def load():
        ...     return np.zeros((64, 4), "float32"), np.zeros((64, 1), "float32")
        >>> features, targets = data.load_once(load)
        >>> features.shape
        (64, 4)
    """
    require_horovod("jupyter_ddl.data.load_once")
    with ExitStack() as stack:
        # Removed once all have mapped it, or on failure: its memory is freed when the last of them drops it.
        answer = _saved(load(), stack) if hvd.local_rank() == 0 else None
        everyone = hvd.allgather_object((socket.gethostname(), answer), name="load_once")
        here = next(paths for host, paths in everyone if host == socket.gethostname() and paths is not None)
        shared = _mapped(*here)
        barrier()
    return shared


def make_once(make: Callable[[], Any]) -> Any:
    """Return what `make` returns, called on rank 0 only; the other ranks wait for it.

    Use it for what the ranks must not all do: extract an archive, write a file that is read afterwards, make a
    temporary folder, remove one. The files must be visible to all ranks: on several hosts, in a folder that these
    share.

    Collective: every rank must call this.

    Args:
        make: returns anything that can be pickled, e.g. a path; or nothing.

    Raises:
        InvalidInput: Horovod is not initialised; on the other ranks: `make` raised on rank 0, where its own error is
            raised.

    Example:
        >>> import tempfile
        >>> folder = data.make_once(tempfile.mkdtemp)
    """
    require_horovod("jupyter_ddl.data.make_once")
    answer, error = None, None
    if hvd.rank() == 0:
        try:
            answer = make()
        except Exception as raised:  # noqa: BLE001  whatever it is, the other ranks must not wait for ever
            error = raised
    answer, problem = hvd.broadcast_object((answer, error and f"{type(error).__name__}: {error}"), 0, name="make_once")
    if error is not None:
        raise error
    if problem is not None:
        raise InvalidInput(
            "What jupyter_ddl.data.make_once calls on rank 0 must succeed there.", problem, "See rank 0's error."
        )
    return answer


def _saved(loaded: Any, stack: ExitStack) -> tuple[str, Any, int]:
    """Write arrays where all ranks of this host find them until the stack ends; return what `_mapped` takes."""
    arrays = [_checked(part) for part in tf.nest.flatten(loaded)]
    size_bytes = sum(array.nbytes for array in arrays)
    place = first_with_room(
        # The first are memory; elsewhere it is the disk's cache, as good while there is memory to spare.
        (*PLACES[RAMDISK], "$TMPDIR", "/tmp"),  # noqa: S108 (a folder of our own in it, of mode 0700)
        size_bytes,
        f"What is loaded once needs room where all ranks of this host find it: {size(size_bytes)}.",
        "Set TMPDIR to a folder with room.",
    )
    assert place.path is not None
    folder = stack.enter_context(passing_folder(place.path))
    for i, array in enumerate(arrays):
        np.save(folder / f"{i}.npy", array)
    return str(folder), tf.nest.map_structure(lambda _: None, loaded), len(arrays)


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
