"""Points and prediction as pictures, PNG and SVG, by matplotlib.

Runs on: a terminal.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.scaling.points import OURS, efficiency
from jupyter_ddl.scaling.tables import bases

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.scaling.points import Figure, Point
    from jupyter_ddl.scaling.results import Results

_WIDTH, _HEIGHT = 7.0, 4.5
# Up to 1,024 ranks each power of two has one.
_TICKS = 12


def check_there() -> None:
    """Refuse to draw without matplotlib.

    Raises:
        InvalidInput: it is not installed.
    """
    if find_spec("matplotlib") is None:
        raise InvalidInput(
            "Plots are drawn by matplotlib.", "no matplotlib", "pip install matplotlib, or pass --no-plots."
        )


def draw(found: Results, folder: Path) -> None:
    """Write images_per_s, efficiency, step and time_to_loss, each as .png and .svg."""
    from matplotlib.figure import Figure as Picture

    for name, drawn in (
        ("images_per_s", _images),
        ("efficiency", _efficiency),
        ("step", _step),
        ("time_to_loss", _time_to_loss),
    ):
        # No pyplot: it keeps what it has drawn, and asks for a display.
        picture = Picture(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = picture.subplots()
        drawn(axes, found)
        axes.set_title(f"{found.model}, {found.mode} scaling, {found.machine['processor']}", fontsize=9)
        for suffix in (".png", ".svg"):
            picture.savefig(folder / f"{name}{suffix}", dpi=140)


def _sides(found: Results) -> dict[str, list[Point]]:
    sides: dict[str, list[Point]] = {}
    for point in sorted(found.points, key=lambda point: point.ranks):
        sides.setdefault(point.side, []).append(point)
    return sides


def _bars(axes: Any, points: list[Point], figures: list[Figure], label: str) -> None:
    ranks = [point.ranks for point in points]
    medians = [figure.median for figure in figures]
    below = [figure.median - figure.low for figure in figures]
    above = [figure.high - figure.median for figure in figures]
    axes.errorbar(ranks, medians, yerr=(below, above), marker="o", capsize=3, label=label)


def _rank_axis(axes: Any) -> None:
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log", base=2)
    axes.set_xlabel("ranks")
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=_TICKS))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _images(axes: Any, found: Results) -> None:
    for side, points in _sides(found).items():
        _bars(axes, points, [point.images_per_s for point in points], f"{side}, measured")
    base = bases(found.points)[OURS]
    most = max([base.ranks, *(step.ranks for prediction in found.predictions for step in prediction.steps)])
    each = base.images_per_s.median / base.ranks
    axes.plot([base.ranks, most], [each * base.ranks, each * most], ":", color="grey", label="linear")
    for prediction in found.predictions:
        axes.plot(
            [step.ranks for step in prediction.steps],
            [step.ranks * step.batch_size / step.time.step_s for step in prediction.steps],
            "--",
            label=f"{prediction.network.algorithm}, predicted",
        )
    axes.set_yscale("log")
    axes.set_ylabel("images/s of all ranks")
    _rank_axis(axes)


def _efficiency(axes: Any, found: Results) -> None:
    against = bases(found.points)
    for side, points in _sides(found).items():
        _bars(axes, points, [efficiency(point, against[side]) for point in points], f"{side}, measured")
    base = against[OURS]
    each = base.images_per_s.median / base.ranks
    for prediction in found.predictions:
        axes.plot(
            [step.ranks for step in prediction.steps],
            [step.batch_size / step.time.step_s / each for step in prediction.steps],
            "--",
            label=f"{prediction.network.algorithm}, predicted",
        )
    axes.axhline(1, linestyle=":", color="grey")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("efficiency")
    _rank_axis(axes)


def _step(axes: Any, found: Results) -> None:
    points = [point for point in _sides(found)[OURS] if point.compute_s is not None]
    names = [str(point.ranks) for point in points]
    compute = [1e3 * (point.compute_s or 0.0) for point in points]
    rest = [max(0.0, 1e3 * point.step_s.median - own) for point, own in zip(points, compute, strict=True)]
    axes.bar(names, compute, label="compute")
    axes.bar(names, rest, bottom=compute, label="exchange and wait for the slowest rank")
    for prediction in found.predictions:
        steps = [step for step in prediction.steps if step.measured_s is not None]
        drawn = [1e3 * step.time.step_s for step in steps]
        axes.plot([str(step.ranks) for step in steps], drawn, "_", markersize=30, color="black")
    axes.set_xlabel("ranks; black: predicted by ring and tree")
    axes.set_ylabel("milliseconds of a step, Horovod")
    # Above the bars, not on them.
    axes.margins(y=0.3)
    axes.legend(fontsize=8, loc="upper left")


def _time_to_loss(axes: Any, found: Results) -> None:
    for side, points in _sides(found).items():
        reached = [(point, figure) for point in points if (figure := point.seconds_to(found.loss)) is not None]
        if reached:
            _bars(axes, [point for point, _ in reached], [figure for _, figure in reached], side)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"seconds to a loss of {found.loss:.3g}")
    _rank_axis(axes)
