"""Events of runs that a dashboard shows, and what its batches say."""

from __future__ import annotations

from typing import Any

from batches import read, read_packed

from jupyter_ddl.protocol.codec import decode
from jupyter_ddl.protocol.events import (
    Event,
    MetricsSample,
    OutputChunk,
)


def sample(rank: int, at_s: float, step: int | None = 1, **more: Any) -> MetricsSample:
    trained = {"samples_per_s": 100.0, "step_s": 0.1, "loss": 0.5} if step is not None else {}
    return MetricsSample("r", rank, at_s, 50.0, 2**30, step=step, **trained | more)


def out(rank: int, text: str, stream: str = "stdout", skipped: int = 0) -> OutputChunk:
    return OutputChunk("r", rank, stream, text, skipped)


def events_of(data: bytes) -> list[Any]:
    return [decode(event, Event) for event in read(data)["events"]]


def packed_events_of(data: bytes) -> list[Any]:
    return [decode(event, Event) for event in read_packed(data)["events"]]
