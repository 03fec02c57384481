"""A stall as text: which ranks are in which collective, which are not, and where each is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.protocol.rank_sets import heading
from jupyter_ddl.views.stack_text import render_stacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_ddl.protocol.events import CollectiveStalled, RankStacks

_NAMES = 3


def render_stall(
    stalled: CollectiveStalled, lasts_s: float, ranks: Sequence[int], stacks: Iterable[RankStacks], world_size: int
) -> str:
    """Return the report of a stall.

    Args:
        stalled: what Horovod said of it.
        lasts_s: for how long it has lasted at least.
        ranks: those of the run.
        stacks: where they are.
        world_size: the number of all ranks.
    """
    lines = [f"The cell has stalled for {lasts_s:.0f} s: not every rank has entered"]
    lines += [f"  {told}" for told in _waits(stalled, ranks)]
    return "\n".join([*lines, *render_stacks(stacks, world_size).splitlines()])


def stall_sentence(stalled: CollectiveStalled, ranks: Sequence[int]) -> str:
    """Return who waits for whom in a stall that lasts, in one sentence: for how long is not said."""
    return f"The cell has stalled: not every rank has entered {'; '.join(_waits(stalled, ranks))}."


def _waits(stalled: CollectiveStalled, ranks: Sequence[int]) -> list[str]:
    """Return, for each set of missing ranks, the collectives in which they are missing and who is in these."""
    lines = []
    for missing, names in _by_missing(stalled).items():
        told = _names(names)
        if missing:
            inside = [rank for rank in ranks if rank not in missing]
            waits = "waits" if len(inside) == 1 else "wait"
            told += f": {heading(inside).lower()} {waits} in it for {heading(missing).lower()}"
        lines.append(told)
    return lines


def _by_missing(stalled: CollectiveStalled) -> dict[tuple[int, ...], list[str]]:
    """Return the ranks that are missing -> the tensors in whose collectives they are."""
    grouped: dict[tuple[int, ...], list[str]] = {}
    for tensor in stalled.tensors:
        missing = sorted(int(rank) for rank, names in stalled.missing.items() if tensor in names)
        grouped.setdefault(tuple(missing), []).append(tensor)
    return grouped


def _names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + rest
