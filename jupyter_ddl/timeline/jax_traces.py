"""Reads what jax.profiler recorded on each rank: a rank hands a tensor over where XLA's operation begins.

Source: jax 0.10, jax/_src/profiler.py; openxla/xla, backends/cpu/runtime/thunk_executor.cc, whose events have the
    operation and its module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.protocol.rank_files import JAX_EPOCH
from jupyter_ddl.protocol.xla_names import COLLECTIVES
from jupyter_ddl.timeline.perfetto import operations
from jupyter_ddl.timeline.rank_calls import Call, collectives_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jupyter_ddl.timeline.collectives import Collective

_MOST_BYTES = 1 << 30
# An operation's beginning and its end, where they are apart, are collectives of which the first only asks.
_START, _DONE = "-start", "-done"


class JaxEvent(msgspec.Struct, gc=False):
    """An event of a trace; `ts` and `dur` are microseconds, `ts` since the trace's beginning."""

    ph: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: Any = 0
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class JaxTrace(msgspec.Struct):
    """A rank's trace, as jax.profiler exports it."""

    events: list[JaxEvent] = msgspec.field(name="traceEvents")

    def began_us(self) -> float:
        """Return when the trace's times begin, microseconds since the epoch.

        Raises:
            ValueError: it does not say it.
        """
        mark = next(one for one in self.events if one.name.startswith(JAX_EPOCH))
        return int(mark.name.removeprefix(JAX_EPOCH)) / 1000 - mark.ts


def read(path: Path, ahead_us: float) -> tuple[JaxTrace, float]:
    """Return one rank's trace, and what its times are shifted by to microseconds since the epoch.

    Args:
        path: of the trace.
        ahead_us: how far the clock of the rank's host was ahead.

    Raises:
        InvalidInput: it is none, or cannot be read.
    """
    try:
        trace = msgspec.json.decode(untrusted_files.read_bytes(path, limit=_MOST_BYTES), type=JaxTrace)
        return trace, trace.began_us() - ahead_us
    except (OSError, ValueError, StopIteration) as error:
        raise InvalidInput(
            "A trace of jax.profiler is JSON that says when it began, as --timeline has it written.",
            f"{path}: {error}",
            "Pass a run that was recorded with --timeline.",
        ) from error


def joined(paths: Mapping[int, Path], ahead_us: Mapping[int, float]) -> tuple[float, list[Collective]]:
    """Return the collectives of all ranks; see `rank_calls.collectives_of`.

    Raises:
        InvalidInput: one is no trace.
    """
    by_rank: dict[int, list[Call]] = {}
    for rank, path in sorted(paths.items()):
        trace, shift_us = read(path, ahead_us.get(rank, 0.0))
        by_rank[rank] = list(calls(trace, shift_us))
    return collectives_of(by_rank)


def calls(trace: JaxTrace, shift_us: float) -> Iterator[Call]:
    """Yield a rank's collectives, in the order in which they began.

    Args:
        trace: the rank's.
        shift_us: as `read` returns it.
    """
    asked_us: dict[str, float] = {}
    for one in sorted(trace.events, key=lambda event: event.ts):
        operation = str(one.args.get("hlo_op", ""))
        kind = _kind_of(operation)
        if not kind or one.ph != "X":
            continue
        name = f"{operation.replace(_DONE, '').replace(_START, '')} of {one.args.get('hlo_module', '')}"
        at_us = one.ts + shift_us
        if _START in operation:
            asked_us[name] = at_us
            continue
        handed_us = asked_us.pop(name, at_us)
        yield Call(kind, (), None, handed_us, handed_us, at_us + one.dur, name)


def _kind_of(operation: str) -> str:
    """Return the kind of collective that an operation of XLA's is; empty for none, and for what only moves data on."""
    is_collective = operation.startswith(COLLECTIVES)
    return kind_of(operation.removeprefix("ragged-").removeprefix("collective-")) if is_collective else ""


def perfetto_events(paths: Mapping[int, Path], ahead_us: Mapping[int, float]) -> Iterator[dict[str, Any]]:
    """Yield all ranks' events for Perfetto."""
    for rank, path in sorted(paths.items()):
        trace, shift_us = read(path, ahead_us.get(rank, 0.0))
        yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}
        noted = (one for one in trace.events if not one.name.startswith(JAX_EPOCH))
        yield from operations(noted, rank, shift_us)
