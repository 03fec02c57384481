"""Starts and stops Horovod's timeline: a file for chrome://tracing or Perfetto with each collective's phases.

Runs on: every rank; rank 0 writes the file.
"""

from __future__ import annotations

import os

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, hvd
from jupyter_ddl.training.requirements import require_horovod


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Begin to record.

    Args:
        file_path: of the JSON file that rank 0 writes.
        mark_cycles: also mark the cycles of Horovod's background thread.

    Raises:
        InvalidInput: Horovod is not initialised, or was without HOROVOD_TIMELINE.

    Example:
        >>> hvd.start_timeline("timeline.json")
        >>> total = hvd.allreduce(1.0, op=hvd.Sum)
        >>> hvd.stop_timeline()
    """
    _require_timeline("hvd.start_timeline")
    try:
        hvd.start_timeline(os.fspath(file_path), mark_cycles=mark_cycles)
    except ValueError as error:
        raise InvalidInput(
            "hvd.start_timeline needs HOROVOD_TIMELINE=DYNAMIC in the environment when Horovod is initialised.",
            f"HOROVOD_TIMELINE={os.environ.get('HOROVOD_TIMELINE', '')}",
            "Set os.environ['HOROVOD_TIMELINE'] = 'DYNAMIC', then call hvd.shutdown() and hvd.init().",
        ) from error


def stop_timeline() -> None:
    """End the recording and close the file.

    Raises:
        InvalidInput: Horovod is not initialised.

    Example:
        >>> hvd.start_timeline("timeline.json")
        >>> hvd.barrier()
        >>> hvd.stop_timeline()  # chrome://tracing and ui.perfetto.dev show the file
    """
    _require_timeline("hvd.stop_timeline")
    hvd.stop_timeline()


def _require_timeline(what: str) -> None:
    if BACKEND != TENSORFLOW:
        raise InvalidInput(
            f"The timeline is Horovod's, and Keras on {BACKEND} exchanges without it.", what, "Use torch.profiler."
        )
    require_horovod(what)
