"""What the benchmarks share: pairs that run interleaved, medians, and the JSON line.

A benchmark compares two sides in one run and judges their ratio, because the machine is noisy and its speed is not the
point. The sides take turns, and the order within a pair alternates, so that a slow minute falls on both.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAIRS = 7


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        name: what was compared, e.g. "n=2 p50".
        ours: our side's figures, one a pair.
        theirs: the other side's.
        unit: of both.
    """

    name: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    unit: str

    @property
    def ratio(self) -> float:
        """The median of ours over the median of theirs."""
        return statistics.median(self.ours) / statistics.median(self.theirs)

    def to_json(self) -> dict[str, Any]:
        """Return both sides' medians and spread."""
        return {
            "row": self.name,
            "ratio": round(self.ratio, 4),
            "unit": self.unit,
            "ours": _summary(self.ours),
            "theirs": _summary(self.theirs),
        }


def interleave(
    ours: Callable[[], float], theirs: Callable[[], float], pairs: int = PAIRS
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Run both sides `pairs` times in turns; return their figures, in order."""
    figures: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        sides = ((0, ours), (1, theirs)) if pair % 2 == 0 else ((1, theirs), (0, ours))
        for side, measure in sides:
            figures[side].append(measure())
        print(f"  pair {pair + 1}: {figures[0][-1]:.4g} against {figures[1][-1]:.4g}", file=sys.stderr, flush=True)
    return tuple(figures[0]), tuple(figures[1])


def report(
    name: str, rows: list[Row], aim: float, better: Literal["lower", "higher"], also: Sequence[Row] = ()
) -> bool:
    """Print the JSON line: the worst row's ratio against the aim; `also` has rows that are told and not judged.

    Return whether the aim holds.
    """
    ratios = [row.ratio for row in rows]
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
