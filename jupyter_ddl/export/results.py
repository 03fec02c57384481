"""Records what came of each point of an export, and writes the page that compares the points of a sweep."""

from __future__ import annotations

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
_MOST_RUNS = 500


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


def with_runs(result: Result) -> Result:
    """Return the result with its runs, as they are on disk, and the figures of the last one that trained."""
    mine = [record for record in _newest() if f"-{result.suffix}-" in record.run]
    trained = next((record for record in mine if record.loss is not None), None)
    return replace(
        result,
        runs=[record.run for record in reversed(mine)],
        loss=None if trained is None else trained.loss,
        samples_per_s=None if trained is None else trained.samples_per_s,
    )


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
        if (curve := _curve(result)) is not None:
            curves.append(replace(curve, parameters=shown))
    return sweep_page(order.title, rows, curves)


def _read(folder: ExportFolder, order: ExportOrder, point: int) -> Result | None:
    try:
        return Result(**json.loads(folder.result(order, point).read_text()))
    except (OSError, ValueError, TypeError):
        # Not written yet, or by another version.
        return None


def _curve(result: Result) -> Curve | None:
    """Return the loss of the last run of a point that has one, as its first rank measured it."""
    records = {record.run: record for record in _newest() if record.run in result.runs}
    for run in reversed(result.runs):
        record = records.get(run)
        if record is not None and record.loss is not None:
            first = record.ranks[0] if record.ranks else 0
            samples = (event for event in run_events(record.path) if isinstance(event, MetricsSample))
            of_first = [one for one in samples if one.rank == first]
            points = [(one.step, one.loss) for one in of_first if one.step is not None and one.loss is not None]
            return Curve({}, points) if points else None
    return None


def _newest() -> list[RunRecord]:
    return [record for _, record in zip(range(_MOST_RUNS), newest_first(), strict=False)]
