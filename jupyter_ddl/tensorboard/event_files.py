"""Writes the files that TensorBoard reads, by TensorBoard's own record writer: no TensorFlow is imported.

Runs on: TensorBoard's process, a terminal.
"""

from __future__ import annotations

import io
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Source: tensorboard/backend/event_processing/event_accumulator.py, which reads the version's number behind the colon
_VERSION = "brain.Event:2"


class EventFiles:
    """Files of scalars, one for each name of a curve's owner: what TensorBoard calls a run.

    What is added is written by `flush`, since there may be more ranks than files that a process may open.

    Args:
        into: the folder; each name has a folder in it.
    """

    def __init__(self, into: Path) -> None:
        self._into = into
        self._pending: dict[str, io.BytesIO] = {}
        self._files: dict[str, Path] = {}

    def add(self, name: str, at_s: float, step: int, values: Mapping[str, float]) -> None:
        """Add values of one step.

        Args:
            name: whose they are.
            at_s: seconds since the epoch.
            step: the place on TensorBoard's axis, at least 0.
            values: tag -> value.
        """
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        if name not in self._files:
            self._files[name] = (
                self._into / name / f"events.out.tfevents.{at_s:.0f}.{socket.gethostname()}.{os.getpid()}"
            )
            RecordWriter(self._pending.setdefault(name, io.BytesIO())).write(
                Event(wall_time=at_s, file_version=_VERSION).SerializeToString()
            )
        summary = Summary(value=[Summary.Value(tag=_text(tag), simple_value=value) for tag, value in values.items()])
        record = Event(wall_time=at_s, step=step, summary=summary).SerializeToString()
        RecordWriter(self._pending.setdefault(name, io.BytesIO())).write(record)

    def flush(self) -> None:
        """Append what was added to the files."""
        for name, pending in self._pending.items():
            path = self._files[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(pending.getvalue())
        self._pending.clear()


def _text(tag: str) -> str:
    """Return a tag without halves of characters, which JSON may have and UTF-8 has not."""
    return tag.encode(errors="replace").decode()
