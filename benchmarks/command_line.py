"""What the command lines of benchmarks with several groups of rows have in common."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from benchmarks.harness import PAIRS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.training_sides import Figures


def asked(description: str | None, groups: Sequence[str]) -> tuple[set[str], int]:
    """Return which groups of rows the command line asks for, all by default, and how many turns each side has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROWS", help=f"of {', '.join(groups)}; all by default")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="turns of each side")
    arguments = parser.parse_args()
    wanted = set(arguments.rows or groups)
    if unknown := wanted - set(groups):
        parser.error(f"ROWS must be of {', '.join(groups)}. Received: {', '.join(sorted(unknown))}.")
    return wanted, arguments.pairs


def told(figures: Figures) -> str:
    """Return one side's figures of a turn as text."""
    return "/".join(f"{figure:.4g}" for figure in figures.values())
