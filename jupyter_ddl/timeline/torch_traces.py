"""Reads what torch.profiler recorded on each rank, and joins it to collectives of all ranks, as Horovod's timeline has.

A rank hands a tensor over where it calls torch.distributed; the result is there where the backend's own span ends. All
times are epoch times of each rank's host, corrected by how far its clock was ahead.
Source: torch 2.13, torch/csrc/profiler/collection.cpp; torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, whose work
    items record "gloo:all_reduce" and so on; kineto, output_json.cpp, baseTimeNanoseconds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.timeline.perfetto import operations
from jupyter_ddl.timeline.rank_calls import Call, collectives_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jupyter_ddl.timeline.collectives import Collective

# A recording has at most 100 steps: of large models it is a hundred megabytes.
_MOST_BYTES = 1 << 30
_CALL, _STEP = "c10d::", "Optimizer.step#"
_BACKENDS = ("gloo:", "nccl:")
# How the profiler names types, and how many bytes one value has.
_BYTES = {
    **dict.fromkeys(("unsigned char", "signed char", "bool"), 1),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long int", "long"), 8),
}


class TorchEvent(msgspec.Struct, gc=False):
    """An event of a trace; `ts` and `dur` are microseconds, `ts` since the trace's own base."""

    ph: str
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: Any = 0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class TorchTrace(msgspec.Struct):
    """A rank's trace, as torch.profiler exports it."""

    events: list[TorchEvent] = msgspec.field(name="traceEvents", default_factory=list)
    base_ns: int = msgspec.field(name="baseTimeNanoseconds", default=0)

    def steps(self) -> list[float]:
        """Return when each step of an optimizer ended, in order."""
        return sorted(one.ts + one.dur for one in self.events if one.name.startswith(_STEP))


def read(path: Path) -> TorchTrace:
    """Return one rank's trace.

    Raises:
        InvalidInput: it is none, or cannot be read.
    """
    try:
        return msgspec.json.decode(untrusted_files.read_bytes(path, limit=_MOST_BYTES), type=TorchTrace)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(
            "A trace of torch.profiler is JSON, as export_chrome_trace writes it.",
            f"{path}: {error}",
            "Pass a run that was recorded with --timeline.",
        ) from error


def joined(paths: Mapping[int, Path], ahead_us: Mapping[int, float]) -> tuple[float, list[Collective]]:
    """Return the collectives of all ranks; see `rank_calls.collectives_of`.

    Args:
        paths: rank -> its trace.
        ahead_us: rank -> how far its host's clock was ahead, in microseconds; 0 where it is not there.

    Raises:
        InvalidInput: one is no trace.
    """
    by_rank: dict[int, list[Call]] = {}
    steps_us: list[float] = []
    for rank, path in sorted(paths.items()):
        trace = read(path)
        shift_us = trace.base_ns / 1000 - ahead_us.get(rank, 0.0)
        by_rank[rank] = list(_calls(trace, shift_us))
        steps_us = steps_us or [end_us + shift_us for end_us in trace.steps()]
    return collectives_of(by_rank, steps_us)


def _calls(trace: TorchTrace, shift_us: float) -> Iterator[Call]:
    spans: dict[str, list[TorchEvent]] = defaultdict(list)
    # NCCL's spans are on the GPU's clock where it has any, and else only say when it was asked.
    on_gpu = any(one.cat == "gpu_user_annotation" and one.name.startswith(_BACKENDS) for one in trace.events)
    for one in sorted(trace.events, key=lambda event: event.ts):
        if one.name.startswith(_BACKENDS) and one.cat == ("gpu_user_annotation" if on_gpu else "user_annotation"):
            spans[_kind(one)].append(one)
    for one in sorted(trace.events, key=lambda event: event.ts):
        kind = _kind(one) if one.name.startswith(_CALL) else ""
        if kind:
            span = next((span for span in spans[kind] if span.ts >= one.ts), None)
            if span is not None:
                spans[kind].remove(span)
            shape, size = _shape(span or one)
            done = one if span is None else span
            yield Call(kind, shape, size, one.ts + shift_us, done.ts + shift_us, done.ts + done.dur + shift_us)


def _kind(event: TorchEvent) -> str:
    return kind_of(event.name.rpartition(":")[2])


def _shape(event: TorchEvent) -> tuple[tuple[int, ...], int | None]:
    """Return the shape of what is exchanged, and its bytes; () and None where the profiler does not say."""
    arguments = msgspec.json.decode(event.args)
    dims, types = arguments.get("Input Dims", []), arguments.get("Input type", [])
    while dims and isinstance(dims[0], list) and dims[0] and isinstance(dims[0][0], list):
        dims = dims[0]
    shape = tuple(dims[0]) if dims and isinstance(dims[0], list) else ()
    size = _BYTES.get(types[0]) if types else None
    return shape, None if size is None else size * math.prod(shape)


def perfetto_events(paths: Mapping[int, Path], ahead_us: Mapping[int, float]) -> Iterator[dict[str, Any]]:
    """Yield all ranks' events for Perfetto, with their kernels under their steps."""
    for rank, path in sorted(paths.items()):
        trace = read(path)
        shift_us = trace.base_ns / 1000 - ahead_us.get(rank, 0.0)
        yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": 0, "args": {"name": "steps"}}
        ends_us = trace.steps()
        for number, (begin_us, end_us) in enumerate(pairwise(ends_us), 2):
            name, length_us = f"step {number}", end_us - begin_us
            yield {"ph": "X", "name": name, "ts": begin_us + shift_us, "dur": length_us, "pid": rank, "tid": 0}
        yield from operations(trace.events, rank, shift_us)
