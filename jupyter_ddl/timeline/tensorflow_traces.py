"""Reads what TensorFlow's profiler recorded on a rank, as `engine/timelines/tensorflow_profile.py` wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 1 << 30


class TensorflowEvent(msgspec.Struct, gc=False):
    """An operation; `ts` is microseconds since the epoch, `dur` its length."""

    ph: str
    name: str
    ts: float
    dur: float
    tid: str


class _Trace(msgspec.Struct):
    events: list[TensorflowEvent] = msgspec.field(name="traceEvents")


def read(path: Path) -> list[TensorflowEvent]:
    """Return one rank's operations.

    Raises:
        InvalidInput: it is no trace, or cannot be read.
    """
    try:
        return msgspec.json.decode(untrusted_files.read_bytes(path, limit=_MOST_BYTES), type=_Trace).events
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(
            "What TensorFlow's profiler recorded is kept as JSON, as a cell with --timeline writes it.",
            f"{path}: {error}",
            "Delete the file: the rest of the run's timeline does not need it.",
        ) from error
