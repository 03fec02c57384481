"""Renders a stall: which ranks are in which collective, which are not, and where each is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.protocol.number_texts import duration
from jupyter_ddl.protocol.rank_answers import RankStacks
from jupyter_ddl.protocol.rank_sets import heading
from jupyter_ddl.views.stack_text import render_stacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.protocol.faults import Fault, StackPlace

_NAMES = 3


def render_stall(fault: Fault) -> str:
    """Return the report of a stall."""
    lines = [
        f"The {fault.facts.program} has stalled for {duration(fault.facts.seconds or 0)}: not every rank has entered"
    ]
    lines += [f"  {told}" for told in _waits(fault)]
    stacks = (one for place in fault.facts.places for one in _stacks(place))
    return "\n".join([*lines, *render_stacks(stacks, fault.facts.world_size or 0).splitlines()])


def stall_sentence(fault: Fault) -> str:
    """Return who waits for whom in a current stall, in one sentence, without its duration."""
    return f"The {fault.facts.program} has stalled: not every rank has entered {'; '.join(_waits(fault))}."


def _waits(fault: Fault) -> list[str]:
    """Return, for each set of missing ranks, the collectives in which they are missing and who is in these."""
    lines = []
    for wait in fault.facts.waits:
        told = _names(wait.tensors)
        if wait.missing:
            inside = [rank for rank in fault.ranks if rank not in wait.missing]
            waits = "waits" if len(inside) == 1 else "wait"
            told += f": {heading(inside).lower()} {waits} in it for {heading(wait.missing).lower()}"
        lines.append(told)
    return lines


def _stacks(place: StackPlace) -> Iterator[RankStacks]:
    """Yield where each rank of a place is."""
    threads = tuple(
        {
            "name": thread.name,
            "frames": [[frame.file, frame.line, frame.function, frame.text] for frame in thread.frames],
        }
        for thread in place.threads
    )
    for rank, host in zip(place.ranks, place.hosts, strict=False):
        yield RankStacks("", rank, host, threads, place.note)


def _names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + rest
