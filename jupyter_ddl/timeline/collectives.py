"""Puts the events of a timeline together: one collective of one tensor, from its first rank to its result.

Horovod's coordinator, rank 0, writes the file, so all times are its own. It notes when a rank has handed a tensor over
only where it negotiates; of a tensor that is in the response cache it notes its own moment alone.
Source: horovod 0.28.1, horovod/common/timeline.cc; horovod/common/controller.cc, ComputeResponseList.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jupyter_ddl.timeline.intervals import Interval
    from jupyter_ddl.timeline.trace_file import TraceEvent

_NEGOTIATE = "NEGOTIATE_"
# A phase that moves bytes within a rank.
_COPY = re.compile(r"MEMCPY|FUSION_BUFFER|ALLOCATE|SHARED_BUFFER")
# A phase in which ranks exchange bytes, by the library that does it.
_EXCHANGE = re.compile(r"(?:MPI|NCCL|GLOO|CCL|ADASUM|P2P)_")
# What 0.28 calls the types, and how many bytes one value has.
_BYTES = {
    **dict.fromkeys(("uint8", "int8", "bool"), 1),
    **dict.fromkeys(("uint16", "int16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "float32"), 4),
    **dict.fromkeys(("int64", "float64"), 8),
}


@dataclass(slots=True)
class Collective:
    """One collective of one tensor. All times are microseconds since the timeline's beginning.

    Attributes:
        tensor: its name.
        kind: "ALLREDUCE", "ALLGATHER" and so on.
        begin_us: when the first rank had handed it over; rank 0, where only that is known.
        handed_us: rank -> when it had handed the tensor over; rank 0 alone where the tensor was in the response cache.
        ready_us: when all had.
        end_us: when the result was there.
        copies: when bytes were copied within rank 0.
        exchanges: when ranks exchanged bytes.
        bytes: of the tensor's result on rank 0; None where that is not known.
    """

    tensor: str
    kind: str
    begin_us: float
    handed_us: dict[int, float] = field(default_factory=dict)
    ready_us: float = 0.0
    end_us: float = 0.0
    copies: list[Interval] = field(default_factory=list)
    exchanges: list[Interval] = field(default_factory=list)
    bytes: int | None = None


class Assembler:
    """Puts events together, and keeps what has begun and not ended.

    Attributes:
        began_s: the timeline's beginning by the clock of rank 0's host, seconds since the epoch; None if not known.
    """

    def __init__(self) -> None:
        self.began_s: float | None = None
        self._names: dict[int, str] = {}
        self._open: dict[int, Collective] = {}
        # Tensor -> the phases that have begun and not ended, with their beginnings.
        self._phases: dict[int, list[tuple[str, float]]] = {}

    def add(self, events: Iterable[TraceEvent]) -> Iterator[Collective]:
        """Yield each collective when its last event comes."""
        for event in events:
            if event.ph == "B":
                self._begin(event)
            elif event.ph == "E":
                ended = self._end(event)
                if ended is not None:
                    yield ended
            elif event.ph == "X":
                self._mark(event)
            elif event.ph == "M":
                self._name(event)

    def _name(self, event: TraceEvent) -> None:
        if "name" in event.args:
            self._names[event.pid] = str(event.args["name"])
        began_us = event.args.get("start_time_since_epoch_in_micros")
        if began_us is not None:
            # Another begins here where Horovod's own files were put together: its tensors get new numbers.
            self.began_s = began_us / 1e6 if self.began_s is None else self.began_s

    def _begin(self, event: TraceEvent) -> None:
        phases = self._phases.setdefault(event.pid, [])
        if not phases and event.pid not in self._open:
            kind = event.name.removeprefix(_NEGOTIATE)
            self._open[event.pid] = Collective(self._names.get(event.pid, str(event.pid)), kind, event.ts)
            if not event.name.startswith(_NEGOTIATE):
                # In a world of one rank nothing is negotiated.
                self._open[event.pid].ready_us = event.ts
        phases.append((event.name, event.ts))

    def _mark(self, event: TraceEvent) -> None:
        collective = self._open.get(event.pid)
        if collective is not None and event.name.isdecimal():
            collective.handed_us.setdefault(int(event.name), event.ts)

    def _end(self, event: TraceEvent) -> Collective | None:
        phases, collective = self._phases.get(event.pid), self._open.get(event.pid)
        if not phases or collective is None:
            return None  # its beginning was before the file's
        name, begin_us = phases.pop()
        if name.startswith(_NEGOTIATE):
            collective.ready_us = event.ts
            if not collective.handed_us:
                collective.handed_us[0] = begin_us
        elif _EXCHANGE.match(name):
            collective.exchanges.append((begin_us, event.ts))
        elif _COPY.search(name):
            collective.copies.append((begin_us, event.ts))
        if phases or name.startswith(_NEGOTIATE):
            return None
        collective.end_us, collective.bytes = event.ts, _bytes_of(event.args)
        if not collective.handed_us:
            collective.handed_us[0] = collective.begin_us
        return self._open.pop(event.pid)


def _bytes_of(arguments: dict[str, Any]) -> int | None:
    """Return the bytes of a tensor of which a phase's end gives the type, and the shape as a text."""
    size = _BYTES.get(str(arguments.get("dtype", "")))
    shape = re.findall(r"\d+", str(arguments.get("shape", "")))
    return None if size is None or "shape" not in arguments else size * math.prod(map(int, shape))
