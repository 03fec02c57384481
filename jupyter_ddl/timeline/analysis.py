"""Analyses one timeline: where its steps' time went, for whom they waited, which tensors took longest."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from jupyter_ddl.timeline.collectives import Assembler
from jupyter_ddl.timeline.steps import steps_of
from jupyter_ddl.timeline.tensors import Tensor, Tensors
from jupyter_ddl.timeline.trace_file import TraceFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.timeline.collectives import Collective
    from jupyter_ddl.timeline.steps import Late, Step

LONGEST_TENSORS = 20
# Steps that a rank delays by less are no finding: Horovod looks for new tensors once in a cycle, a millisecond.
_LATE_US = 2_000.0
# The columns of numbers that are kept of every step.
_COLUMNS = ("step_us", "exchange_us", "hidden_us", "exposed_us", "collective_us", "copies_us", "queue_us")


@dataclass
class Lateness:
    """How often a rank was the last, and what that cost.

    Attributes:
        times: in how many steps it was the last.
        by_us: in all, how much later than the rank before it.
        worst: the step in which it was latest, and how.
    """

    times: int = 0
    by_us: float = 0.0
    worst: tuple[int, Late] | None = None

    def add(self, step: int, late: Late) -> None:
        """Count one step."""
        self.times += 1
        self.by_us += late.by_us
        if self.worst is None or late.by_us > self.worst[1].by_us:
            self.worst = step, late


@dataclass
class Analysis:
    """What a timeline says.

    Attributes:
        path: of its file.
        is_cut_off: whether the file lacks its end.
        began_s: its beginning, seconds since the epoch by rank 0's host; None if not known.
        ranks: how many took part; None where only rank 0 is known.
        steps: how many were found.
        columns: name -> the figures of each step, in microseconds.
        compute_us: rank -> the compute of each step; of ranks whose times are known in all steps.
        wait_us: rank -> likewise the wait for the slowest rank.
        lateness: rank -> how often it was the last.
        tensors: the longest ones.
        others: how many collectives belong to no step: weights at the beginning, metrics of an epoch.
        kept: the steps that were asked for, with their collectives.
        recorded_by: the profiler that recorded it, which does not know copies; None for Horovod.
    """

    path: Path
    is_cut_off: bool = False
    began_s: float | None = None
    ranks: int | None = None
    steps: int = 0
    columns: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in _COLUMNS})
    compute_us: dict[int, array[float]] = field(default_factory=dict)
    wait_us: dict[int, array[float]] = field(default_factory=dict)
    lateness: dict[int, Lateness] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    others: int = 0
    kept: list[Step] = field(default_factory=list)
    recorded_by: str | None = None

    @property
    def knows_ranks(self) -> bool:
        """Whether it is known of each rank when it had handed its tensors over, and so who was the last."""
        return self.ranks is not None and len(self.compute_us) == self.ranks

    def median_us(self, column: str) -> float:
        """Return the median over the steps; 0 where there is none."""
        return median(self.columns[column]) if self.steps else 0.0

    def slowest(self) -> tuple[int, Lateness] | None:
        """Return the rank that steps waited for longest in all, where that is no noise."""
        found = max(self.lateness.items(), key=lambda item: item[1].by_us, default=None)
        if found is None or found[1].worst is None or found[1].worst[1].by_us < _LATE_US:
            return None
        return found


def analyse(path: Path, kept: range = range(0)) -> Analysis:
    """Analyse a timeline that Horovod wrote, of any size: it is read twice, a piece at a time.

    Args:
        path: of the file; one that is cut off is analysed up to there.
        kept: the numbers of the steps that are kept whole, from 0.

    Raises:
        InvalidInput: it is no timeline, or cannot be read.

    Example:
        >>> analysis = analyse(Path("timeline.json"))
        >>> analysis.median_us("exposed_us")
    """
    counts = Counter(one.tensor for one in Assembler().add(TraceFile(path).events()))
    file, assembler = TraceFile(path), Assembler()
    found = _analysis(Analysis(path), assembler.add(file.events()), counts, kept)
    found.is_cut_off, found.began_s = file.is_cut_off, assembler.began_s
    return found


def analyse_joined(
    path: Path, recorded_by: str, joined: tuple[float, list[Collective]], kept: range = range(0)
) -> Analysis:
    """Analyse what a profiler recorded on the ranks of a run.

    Args:
        path: of one rank's trace.
        recorded_by: the profiler.
        joined: when their times begin, and the collectives of all ranks.
        kept: the numbers of the steps that are kept whole, from 0.
    """
    began_s, collectives = joined
    found = Analysis(path, began_s=began_s, recorded_by=recorded_by)
    return _analysis(found, iter(collectives), Counter(one.tensor for one in collectives), kept)


def _analysis(found: Analysis, collectives: Iterator[Collective], counts: Counter[str], kept: range) -> Analysis:
    """Fill in an analysis of collectives, in the order in which they ended."""
    most = max(counts.values(), default=0)
    tensors = Tensors()
    ranks = 0

    def counted() -> Iterator[Collective]:
        nonlocal ranks
        for one in collectives:
            tensors.add(one)
            ranks = max(ranks, *one.handed_us)
            found.others += not is_of_steps(one.tensor)
            yield one

    def is_of_steps(tensor: str) -> bool:
        # What comes once an epoch comes less often.
        return counts[tensor] > most / 2 and most > 1

    for step in steps_of(counted(), is_of_steps):
        _add(found, step)
        if step.number in kept:
            found.kept.append(step)
    tensors.end()
    for by_rank in (found.compute_us, found.wait_us):
        for rank in [rank for rank, column in by_rank.items() if len(column) < found.steps]:
            del by_rank[rank]
    found.ranks = ranks + 1 if ranks else None
    found.tensors = tensors.longest(LONGEST_TENSORS)
    return found


def _add(found: Analysis, step: Step) -> None:
    found.steps += 1
    for name in _COLUMNS:
        found.columns[name].append(getattr(step, name))
    for rank in step.handed_us:
        found.compute_us.setdefault(rank, array("d")).append(step.compute_us(rank))
        found.wait_us.setdefault(rank, array("d")).append(step.wait_us(rank))
    if step.late is not None:
        found.lateness.setdefault(step.late.rank, Lateness()).add(step.number, step.late)
