"""Timelines whose figures are known, as Horovod writes them: what tests of the analysis and of its page read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

STEP_US = 10_000
# Tensor -> when each of two ranks hands it over, in microseconds of the step. "b" and "c" go in one buffer.
HANDED = {"a": (4000, 4500), "b": (5000, 6000), "c": (5500, 6000)}
SHAPES = {"a": "[1000]", "b": "[500, 2]", "c": "[1000]"}
PIDS = {name: number for number, name in enumerate(HANDED, 1)}


def event(**fields: object) -> str:
    return json.dumps(fields)


def collective(
    name: str, at_us: int, handed: tuple[int, ...], phases: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    """Yield the events of one, each with its time."""
    pid = PIDS[name]
    first, last = min(handed), max(handed)
    yield at_us + first, event(ph="B", name="NEGOTIATE_ALLREDUCE", ts=at_us + first, pid=pid)
    for rank, handed_us in enumerate(handed):
        yield at_us + handed_us, event(ph="X", name=str(rank), ts=at_us + handed_us, pid=pid, dur=0)
    yield at_us + last, event(ph="E", ts=at_us + last, pid=pid)
    yield at_us + last, event(ph="B", name="ALLREDUCE", ts=at_us + last, pid=pid)
    for phase, (begin, end) in phases.items():
        yield at_us + begin, event(ph="B", name=phase, ts=at_us + begin, pid=pid)
        yield at_us + end, event(ph="E", ts=at_us + end, pid=pid)
    end = max(end for _, end in phases.values())
    shape = {"dtype": "float32", "shape": SHAPES[name]}
    yield at_us + end, event(ph="E", ts=at_us + end, pid=pid, args=shape)


def step(at_us: int, late_us: int = 0) -> list[str]:
    """Return the events of a step, whose second rank is late by so much with all of its tensors."""
    own = {"MPI_ALLREDUCE": (4600 + late_us, 5200 + late_us)}
    fused = {
        "MEMCPY_IN_FUSION_BUFFER": (6100 + late_us, 6200 + late_us),
        "MPI_ALLREDUCE": (6200 + late_us, 7200 + late_us),
        "MEMCPY_OUT_FUSION_BUFFER": (7200 + late_us, 7500 + late_us),
    }
    events: list[tuple[int, str]] = []
    for name, (first, second) in HANDED.items():
        events += collective(name, at_us, (first, second + late_us), own if name == "a" else fused)
    return [text for _, text in sorted(events, key=lambda one: one[0])]


def written(path: Path, steps: int, late: Mapping[int, int] | None = None, *, end: str = "]") -> Path:
    """Write a timeline as Horovod 0.28.1 does: see `WriteAtFileStart` and `DoWriteEvent` in its timeline.cc."""
    heads = [event(name="process_name", ph="M", pid=0, args={"start_time_since_epoch_in_micros": 1_000_000})]
    heads += [event(name="process_name", ph="M", pid=pid, args={"name": name}) for name, pid in PIDS.items()]
    late = late or {}
    begins_us = (
        number * STEP_US + sum(us for before, us in late.items() if before < number) for number in range(steps)
    )
    bodies = [one for number, at_us in enumerate(begins_us) for one in step(at_us, late.get(number, 0))]
    path.write_text("[\n" + ",\n".join(heads) + ",\n" + ",".join(bodies) + end, encoding="utf-8")
    return path
