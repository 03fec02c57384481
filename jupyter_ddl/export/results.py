"""Records what came of each point of an export, and writes the page that compares the points of a sweep."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from jupyter_ddl.export.order import COMPARISON
from jupyter_ddl.host import files
from jupyter_ddl.protocol.events import MetricsSample
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.store import newest_first
from jupyter_ddl.views.sweep_page import Curve, SweepRow, sweep_page

if TYPE_CHECKING:
    from jupyter_ddl.export.order import ExportFolder, ExportOrder
    from jupyter_ddl.runs.store import RunRecord

State = Literal["finished", "failed", "stopped"]
# Of a curve: more than the page has room for.
_MOST_STEPS = 400


@dataclass(frozen=True)
class Result:
    """What came of a point.

    Attributes:
        point: its number.
        parameters: which it had.
        state: how its notebook ended.
        seconds: its duration.
        error: of the cell that failed; empty without one.
        suffix: of the names of its clusters.
        runs: the ids of its runs, the first one first.
        loss: the last one of the last run that has one.
        samples_per_s: of all ranks in that run.
        losses: pairs of a step and the loss there, of that run's first rank; no more than the page shows.
    """

    point: int
    parameters: dict[str, Any]
    state: State
    seconds: float
    error: str
    suffix: str
    runs: list[str] = field(default_factory=list)
    loss: float | None = None
    samples_per_s: float | None = None
    losses: list[tuple[int, float]] = field(default_factory=list)


def with_runs(result: Result, began_s: float) -> Result:
    """Return the result with its runs, as they are on disk, and the figures of the last one that trained.

    Args:
        result: of a point.
        began_s: when its notebook began, in seconds since the epoch.
    """
    since = itertools.takewhile(lambda record: record.start_s >= began_s, newest_first())
    mine = [record for record in since if f"-{result.suffix}-" in record.run]
    trained = next((record for record in mine if record.loss is not None), None)
    found = replace(result, runs=[record.run for record in reversed(mine)])
    if trained is None:
        return found
    return replace(found, loss=trained.loss, samples_per_s=trained.samples_per_s, losses=_losses(trained))


def write(folder: ExportFolder, order: ExportOrder, result: Result) -> None:
    """Record a point; of a sweep, write the page again with all that are there by now."""
    files.replace(folder.result(order, result.point), json.dumps(asdict(result), indent=1) + "\n", mode=files.SHARED)
    if len(order.points) == 1:
        return
    # Jobs of an array that end at the same time write one after the other, and the last one has seen all.
    with files.open_to_lock(folder.path / f".{COMPARISON}.lock") as lock:
        files.lock(lock)
        files.replace(folder.path / COMPARISON, _page(folder, order), mode=files.SHARED)


def _page(folder: ExportFolder, order: ExportOrder) -> str:
    rows, curves = [], []
    for point, parameters in enumerate(order.points):
        shown = {name: parameters[name] for name in order.swept}
        result = _read(folder, order, point)
        if result is None:
            rows.append(SweepRow(shown, "not there yet"))
            continue
        executed = folder.executed(order, point).name
        figures = (result.seconds, result.loss, result.samples_per_s)
        rows.append(SweepRow(shown, result.state, *figures, executed, result.runs, result.error))
        if result.losses:
            curves.append(Curve(shown, result.losses))
    return sweep_page(order.title, rows, curves)


def _read(folder: ExportFolder, order: ExportOrder, point: int) -> Result | None:
    try:
        return Result(**json.loads(folder.result(order, point).read_text()))
    except (OSError, ValueError, TypeError):
        # Not written yet, or by another version.
        return None


def _losses(record: RunRecord) -> list[tuple[int, float]]:
    """Return the losses of a run as its first rank measured them: every so many steps of a long one, and the last."""
    first = record.ranks[0] if record.ranks else 0
    samples = (event for event in run_events(record.path) if isinstance(event, MetricsSample) and event.rank == first)
    points = [(one.step, one.loss) for one in samples if one.step is not None and one.loss is not None]
    every = -(-len(points) // _MOST_STEPS) or 1
    return [*points[:-1:every], *points[-1:]]
