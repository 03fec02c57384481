"""Points and prediction as tables, for a terminal and in Markdown.

Runs on: a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.scaling.points import OURS, efficiency

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.scaling.points import Figure, Point
    from jupyter_ddl.scaling.results import Results

_MEASURED = ("side", "ranks", "batch", "images/s", "efficiency", "step", "compute", "exchange and wait", "to the loss")
_PREDICTED = ("algorithm", "ranks", "batch", "images/s", "step", "compute", "wait", "exchange", "measured", "off by")
_RIGHT = (1, 2, 3, 4, 5, 6, 7, 8, 9)


def text(found: Results) -> str:
    """Return the tables for a terminal."""
    rows = aligned([_MEASURED, *_measured(found)], right=_RIGHT)
    if found.predictions:
        rows += ["", *aligned([_PREDICTED, *_predicted(found)], right=_RIGHT)]
    return "\n".join([_title(found), "", *rows, "", *_notes(found)])


def markdown(found: Results) -> str:
    """Return the same in Markdown."""
    parts = [f"# {_title(found)}", "", *_table(_MEASURED, list(_measured(found))), ""]
    if found.predictions:
        parts += ["## Prediction", "", *_table(_PREDICTED, list(_predicted(found))), ""]
    return "\n".join([*parts, *(f"- {note}" for note in _notes(found)), ""])


def spread(figure: Figure, form: str = ",.0f") -> str:
    """Return a figure as a median, with the smallest and largest value in brackets."""
    return f"{figure.median:{form}} ({figure.low:{form}}-{figure.high:{form}})"


def bases(points: Sequence[Point]) -> dict[str, Point]:
    """Return what each side's efficiency is against: ours on the fewest ranks, for all sides."""
    first = min((point for point in points if point.side == OURS), key=lambda point: point.ranks)
    return {point.side: first for point in points}


def milliseconds(seconds: float | None) -> str:
    """Return a time in milliseconds; a dash where there is none."""
    return "-" if seconds is None else f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{1e3 * seconds:,.0f} ms"


def _title(found: Results) -> str:
    return f"{found.model}, {found.mode} scaling, on {found.machine['processor']}, {found.machine['cores']} cores"


def _measured(found: Results) -> Iterator[tuple[str, ...]]:
    against = bases(found.points)
    for point in found.points:
        compute_s, reached = point.compute_s, point.seconds_to(found.loss)
        yield (
            point.side,
            str(point.ranks),
            str(point.batch_size),
            spread(point.images_per_s),
            spread(efficiency(point, against[point.side]), ".2f"),
            milliseconds(point.step_s.median),
            milliseconds(compute_s),
            milliseconds(None if compute_s is None else max(0.0, point.step_s.median - compute_s)),
            "not reached" if reached is None else spread(reached, ".2f") + " s",
        )


def _predicted(found: Results) -> Iterator[tuple[str, ...]]:
    for prediction in found.predictions:
        for step in prediction.steps:
            time = step.time
            yield (
                prediction.network.algorithm,
                str(step.ranks),
                str(step.batch_size),
                f"{step.ranks * step.batch_size / time.step_s:,.0f}",
                *map(milliseconds, (time.step_s, time.compute_s, time.wait_s, time.exchange_s, step.measured_s)),
                "-" if step.error is None else f"{step.error:+.0%}",
            )


def _notes(found: Results) -> Iterator[str]:
    machine, plan = found.machine, found.plan
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    yield f"Model: {found.source}; size {plan.size}, {plan.warm_up} steps before {plan.steps} timed ones."
    runs = len(found.points[0].runs)
    yield f"Medians of {runs} runs in turns, with the smallest and the largest; {plan.threads} threads a rank."
    load = machine["load"][0]
    yield f"Machine: {machine['system']}, {machine['memory_gib']} GiB; load {load} at the end. {versions}."
    yield "Efficiency: images/s of a rank over those of a rank of Horovod's fewest ranks."
    yield f"Loss to reach: {found.loss:.4g}."
    crowded = sorted({point.ranks for point in found.points if point.ranks * plan.threads > machine["cores"]})
    if crowded and "-H" not in plan.run_options:
        many = ", ".join(map(str, crowded))
        yield f"{many} ranks share {machine['cores']} cores: they say what sharing costs, and not how it scales."
    for prediction in found.predictions:
        network = prediction.network
        yield (
            f"{network.algorithm}, fitted on {prediction.fitted_on} ranks: alpha {1e6 * network.alpha_s:.3g} µs, "
            f"beta {1e9 * network.beta_s:.3g} ns a byte, gamma {1e6 * network.gamma_s:.3g} µs."
        )
    if found.predictions:
        yield "Beyond the measured ranks all is predicted: a core for each rank, and the same network."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    line = "|".join("---" if i == 0 else "---:" for i in range(len(head)))
    return [f"| {' | '.join(head)} |", f"|{line}|", *(f"| {' | '.join(row)} |" for row in rows)]
