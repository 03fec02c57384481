"""What the benchmarks share: sides that run interleaved, medians, and the JSON line.

A benchmark compares two sides in one run and judges their ratio, because the machine is noisy and its speed is not the
point. The sides take turns, and the order within a round changes, so that a slow minute falls on all. What is judged is
the median of the pairs' ratios: the two figures of a pair were taken one after the other, and where a machine is slow
for half of the run, the ratio of two medians may be one of a slow minute over a fast one.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Better = Literal["lower", "higher"]

Figure = TypeVar("Figure")

PAIRS = 7


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        name: what was compared, e.g. "n=2 p50".
        ours: our side's figures, one a pair.
        theirs: the other side's, in the order of the pairs.
        unit: of both.
        aim: of this row, where the benchmark's rows have different ones.
    """

    name: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    unit: str
    aim: float | None = None

    def __post_init__(self) -> None:
        """Refuse figures that make no pairs."""
        if not self.ours or len(self.ours) != len(self.theirs):
            raise ValueError(
                f"Each figure of a row must have its pair. Received: {self.name}, {len(self.ours)} of ours and "
                f"{len(self.theirs)} of theirs. Measure both sides in every round."
            )

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ours over theirs, of each pair."""
        return tuple(ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        return statistics.median(self.ratios)

    @property
    def to_aim(self) -> float:
        """The ratio as a part of the row's own aim, where it has one."""
        return self.ratio if self.aim is None else self.ratio / self.aim

    def to_json(self) -> dict[str, Any]:
        """Return the ratio and its spread, and both sides' medians and spread."""
        return {
            "row": self.name,
            "ratio": round(self.ratio, 4),
            "ratios": {"min": round(min(self.ratios), 4), "max": round(max(self.ratios), 4)},
            **({} if self.aim is None else {"aim": self.aim}),
            "unit": self.unit,
            "ours": _summary(self.ours),
            "theirs": _summary(self.theirs),
        }


class Nowhere:
    """Where a view's outputs go that nobody is to see: a `views.publish.Publisher`."""

    def publish(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Show a new output to nobody."""

    def update(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Replace an output that nobody sees."""


def interleave(
    ours: Callable[[], float], theirs: Callable[[], float], pairs: int = PAIRS
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Run both sides `pairs` times in turns; return their figures, in order."""
    figures = rounds({"ours": ours, "theirs": theirs}, pairs, show="{:.4g}".format)
    return tuple(figures["ours"]), tuple(figures["theirs"])


def rounds(
    sides: Mapping[str, Callable[[], Figure]], count: int = PAIRS, *, show: Callable[[Figure], str]
) -> dict[str, list[Figure]]:
    """Run every side once a round; each round begins with another one. Return their figures, in order.

    Args:
        sides: what to run, by name.
        count: of rounds.
        show: a figure as text, told while it goes on.
    """
    names = list(sides)
    figures: dict[str, list[Figure]] = {name: [] for name in names}
    for i in range(count):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            figures[name].append(sides[name]())
        told = ", ".join(f"{name} {show(figures[name][-1])}" for name in names)
        print(f"  round {i + 1} of {count}: {told}", file=sys.stderr, flush=True)
    return figures


def report(
    name: str,
    rows: Sequence[Row],
    aim: float,
    better: Better,
    also: Sequence[Row] = (),
    not_measured: Mapping[str, str] | None = None,
) -> bool:
    """Print the JSON line: the worst row's ratio against the aim.

    Args:
        name: of the benchmark.
        rows: what is judged. Where rows have aims of their own, each counts as its ratio divided by its aim.
        aim: of the ratio; 1 where rows have aims of their own.
        better: whether a lower or a higher ratio is good.
        also: rows that are told and not judged.
        not_measured: rows that this machine could not measure, and why.

    Returns:
        Whether the aim holds.
    """
    ratios = [row.to_aim for row in rows]
    ratio = max(ratios) if better == "lower" else min(ratios)
    holds = ratio <= aim if better == "lower" else ratio >= aim
    line = {
        "name": name,
        "ratio": round(ratio, 4),
        "aim": aim,
        "better": better,
        "holds": holds,
        "rows": [row.to_json() for row in rows],
        "also": [row.to_json() for row in also],
        **({"not_measured": dict(not_measured)} if not_measured else {}),
    }
    print(json.dumps(line), flush=True)
    return holds


def _summary(figures: tuple[float, ...]) -> dict[str, float]:
    return {
        "median": round(statistics.median(figures), 5),
        "min": round(min(figures), 5),
        "max": round(max(figures), 5),
        "pairs": len(figures),
    }
