"""Joins what a profiler noted of each rank's collectives: one collective of all ranks, as Horovod's timeline has it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.timeline.collectives import Collective

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# The kinds by what names of calls and spans have, without their signs; send and recv are none of them.
KINDS = (
    *("ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL", "BROADCAST", "BARRIER"),
    *("REDUCE", "GATHER", "SCATTER"),
)


@dataclass(slots=True)
class Call:
    """A collective on one rank.

    Attributes:
        kind: one of KINDS.
        shape: of what is exchanged; () where it is not known.
        bytes: likewise.
        handed_us: when the rank called it, microseconds since the epoch.
        begins_us: when the backend began.
        end_us: when the result was there.
        name: the same on all ranks; empty where the library names none.
    """

    kind: str
    shape: tuple[int, ...]
    bytes: int | None
    handed_us: float
    begins_us: float
    end_us: float
    name: str = ""


def kind_of(name: str) -> str:
    """Return the kind of collective that a call's or a span's name begins with; empty for none.

    Example:
        >>> kind_of("all_reduce")
        'ALLREDUCE'
    """
    plain = name.replace("_", "").replace("-", "").upper()
    return next((kind for kind in KINDS if plain.startswith(kind)), "")


def collectives_of(
    by_rank: Mapping[int, Sequence[Call]], steps_us: Sequence[float] = ()
) -> tuple[float, list[Collective]]:
    """Return the collectives in the order in which they ended, and the moment from which their times count.

    Args:
        by_rank: rank -> its calls, in order.
        steps_us: when the steps of a rank ended: what has no name gets one of its place in a step.

    Returns:
        Seconds since the epoch, and the collectives: those of which two ranks' times are known.
    """
    began_us = min((call.handed_us for calls in by_rank.values() for call in calls), default=0.0)
    names = _Names(steps_us)
    joined = sorted(_joined(by_rank), key=lambda calls: min(call.handed_us for call in calls.values()))
    found = [_collective(calls, names, began_us) for calls in joined]
    return began_us / 1e6, sorted(found, key=lambda one: one.end_us)


class _Names:
    """Names collectives by their place in a step: `allreduce 2 [8449]`."""

    def __init__(self, steps_us: Sequence[float]) -> None:
        self._steps_us = steps_us
        self._counts: Counter[tuple[int, str]] = Counter()

    def of(self, call: Call) -> str:
        """Return the name of the next collective; they come in the order in which they were handed over."""
        if call.name:
            return call.name
        place = bisect_left(self._steps_us, call.handed_us), call.kind
        self._counts[place] += 1
        return f"{call.kind.lower()} {self._counts[place]} {list(call.shape)}"


def _joined(by_rank: Mapping[int, Sequence[Call]]) -> Iterator[dict[int, Call]]:
    """Yield rank -> its call, of each collective.

    Ranks call the same ones in the same order. Where they do not make as many of one kind, some are of a part of the
    ranks, and those of one shape belong together.
    """
    counts = [Counter(call.kind for call in calls) for calls in by_rank.values()]
    alike = {kind for kind in KINDS if len({count[kind] for count in counts}) == 1}
    found: dict[tuple[tuple[object, ...], int], dict[int, Call]] = defaultdict(dict)
    for rank, calls in by_rank.items():
        seen: Counter[tuple[object, ...]] = Counter()
        for call in calls:
            key = (call.name,) if call.name else (call.kind,) if call.kind in alike else (call.kind, call.shape)
            seen[key] += 1
            found[key, seen[key]][rank] = call
    return (calls for calls in found.values() if len(calls) > 1)


def _collective(calls: Mapping[int, Call], names: _Names, began_us: float) -> Collective:
    handed_us = {rank: call.handed_us - began_us for rank, call in calls.items()}
    first = calls[min(calls)]
    ready_us = max(handed_us.values())
    end_us = max(ready_us, *(call.end_us - began_us for call in calls.values()))
    # What a backend does before the last rank has come is to wait for it.
    begins_us = min(end_us, max(ready_us, *(call.begins_us - began_us for call in calls.values())))
    gathered = len(calls) if first.kind == "ALLGATHER" else 1
    return Collective(
        names.of(first),
        first.kind,
        min(handed_us.values()),
        handed_us,
        ready_us,
        end_us,
        exchanges=[(begins_us, end_us)],
        bytes=None if first.bytes is None else first.bytes * gathered,
    )
