"""Writes one file for Perfetto (ui.perfetto.dev) or chrome://tracing: each rank's steps and kernels, and collectives.

All times are by the clock of the host that kept the run: those of ranks on other hosts are corrected by how far their
clocks were ahead when the ranks started.
Source: "Trace Event Format", the format's description by Chromium.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_ddl.host import untrusted_files
from jupyter_ddl.timeline import tensorflow_traces
from jupyter_ddl.timeline.trace_file import TraceFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_STEPS, _HANDED = 1, 2
# Of a piece.
_EVENTS = 5_000


class Operation(Protocol):
    """What a profiler noted: microseconds, its thread, and "X" for what has a length."""

    ph: str
    name: str
    ts: float
    dur: float
    tid: Any


def pieces(
    horovod: Path,
    steps: Mapping[int, Path] | None = None,
    ahead_us: Mapping[int, float] | None = None,
    kernels: Mapping[int, Path] | None = None,
) -> Iterator[str]:
    """Yield the file, a piece at a time.

    Args:
        horovod: the timeline that Horovod wrote on rank 0.
        steps: rank -> the file of its steps' times.
        ahead_us: rank -> how far its host's clock was ahead, in microseconds; 0 where it is not there.
        kernels: rank -> what TensorFlow's profiler recorded.

    Raises:
        InvalidInput: one is no timeline, or no trace.
    """
    ranks, ahead = steps or {}, ahead_us or {}
    return as_list(
        chain(
            _names(ranks),
            *(_steps_of(rank, path, ahead.get(rank, 0.0)) for rank, path in sorted(ranks.items())),
            *(_kernels_of(rank, path, ahead.get(rank, 0.0)) for rank, path in sorted((kernels or {}).items())),
            _of_horovod(horovod, max(ranks, default=0) + 1, ahead.get(0, 0.0)),
        )
    )


def as_list(events: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield events as a list of JSON, a piece at a time."""
    some, separator = iter(events), "[\n"
    while piece := list(islice(some, _EVENTS)):
        yield separator + ",\n".join(map(json.dumps, piece))
        separator = ",\n"
    yield "\n]\n"


def operations(some: Iterable[Operation], rank: int, shift_us: float, first: int = 1) -> Iterator[dict[str, Any]]:
    """Yield what a profiler noted on a rank: a row for each of its threads.

    Args:
        some: the profiler's events.
        rank: the rank.
        shift_us: from their times to microseconds since the epoch.
        first: the number of the first row.
    """
    threads: dict[str, int] = {}
    for one in some:
        if one.ph == "X":
            thread = threads.setdefault(str(one.tid), len(threads) + first)
            yield {"ph": "X", "name": one.name, "ts": one.ts + shift_us, "dur": one.dur, "pid": rank, "tid": thread}
    for name, thread in threads.items():
        yield _name("thread_name", rank, thread, name)


def _names(ranks: Iterable[int]) -> Iterator[dict[str, Any]]:
    for rank in sorted(ranks):
        yield _name("process_name", rank, 0, f"rank {rank}")
        yield _name("thread_name", rank, _STEPS, "steps")
        yield _name("thread_name", rank, _HANDED, "tensors handed over, as rank 0 noted it")


def _steps_of(rank: int, path: Path, ahead_us: float) -> Iterator[dict[str, Any]]:
    with untrusted_files.open_file(path) as file:
        for number, line in enumerate(untrusted_files.lines(file)):
            with suppress(ValueError, TypeError):  # the last line of a rank that was killed
                begin_us, end_us = json.loads(line)
                yield {
                    "ph": "X",
                    "name": f"step {number + 1}",
                    "ts": begin_us - ahead_us,
                    "dur": end_us - begin_us,
                    "pid": rank,
                    "tid": _STEPS,
                }


def _kernels_of(rank: int, path: Path, ahead_us: float) -> Iterator[dict[str, Any]]:
    return operations(tensorflow_traces.read(path), rank, -ahead_us, _HANDED + 1)


def _of_horovod(path: Path, process: int, ahead_us: float) -> Iterator[dict[str, Any]]:
    yield _name("process_name", process, 0, "Horovod, as rank 0 noted it")
    shift_us: float | None = None
    for event in TraceFile(path).events():
        began_us = event.args.get("start_time_since_epoch_in_micros")
        if began_us is not None and shift_us is None:
            shift_us = began_us - ahead_us
        at_us = event.ts + (shift_us or 0.0)
        if event.ph == "M" and "name" in event.args:
            yield _name("thread_name", process, event.pid, str(event.args["name"]))
        elif event.ph in {"B", "E"}:
            named = {"name": event.name} if event.ph == "B" else {}
            more = {"args": event.args} if event.args else {}
            yield {"ph": event.ph, **named, "ts": at_us, "pid": process, "tid": event.pid, **more}
        elif event.ph == "X" and event.name.isdecimal():
            yield {"ph": "i", "s": "t", "name": "handed over", "ts": at_us, "pid": int(event.name), "tid": _HANDED}


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
