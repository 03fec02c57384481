"""Makes the page that compares the points of a sweep: one file of HTML, which loads nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.number_texts import duration, loss, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Told apart by people who see no red or no green. Source: Okabe and Ito, "Color Universal Design", 2008
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#c68600", "#3392cc", "#000000")
_DASHES = ("", "6 3", "2 3")
_WIDTH, _HEIGHT, _MARGIN = 720, 280, 40
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}"
    "body{color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse;width:100%}th,td{padding:.3em .7em;text-align:left;border-bottom:1px solid #ddd}"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}.best{font-weight:700}.failed,.stopped{color:#b3261e}"
    "small{color:#555}svg{max-width:100%;height:auto}"
    "@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#1e1e1e}th,td{border-color:#444}"
    ".failed,.stopped{color:#ff8a80}small{color:#aaa}svg{background:#fff}}"
)


@dataclass(frozen=True)
class SweepRow:
    """What is shown of a point.

    Attributes:
        parameters: those that differ.
        state: how it ended; "not there yet".
        seconds: its duration; the next ones None where not known.
        loss: the last one.
        samples_per_s: of all ranks.
        executed: the file of its notebook, beside the page.
        runs: the ids of its runs.
        error: of the cell that failed.
    """

    parameters: Mapping[str, Any]
    state: str
    seconds: float | None = None
    loss: float | None = None
    samples_per_s: float | None = None
    executed: str = ""
    runs: Sequence[str] = ()
    error: str = ""


@dataclass(frozen=True)
class Curve:
    """The loss of a point: pairs of a step and the loss there."""

    parameters: Mapping[str, Any]
    points: Sequence[tuple[int, float]] = field(default_factory=list)


def sweep_page(title: str, rows: Sequence[SweepRow], curves: Sequence[Curve]) -> str:
    """Return the page: a table, the least loss in bold, and the curves of the loss over the steps.

    Args:
        title: of the notebook.
        rows: one a point, in the order of the sweep.
        curves: of the points that have one.
    """
    over = sum(row.seconds is not None for row in rows)
    head = (*(rows[0].parameters if rows else ()), "state", "loss", "samples/s", "took", "notebook", "runs")
    losses = [row.loss for row in rows if row.state == "finished" and row.loss is not None]
    least = min(filter(math.isfinite, losses), default=None)
    body = "\n".join(_row(row, is_best=least is not None and row.loss == least) for row in rows)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}: a sweep</title>\n'
        f"<style>{_STYLE}</style>\n<h1>{escape(title)}</h1>\n<p>{over} of {len(rows)} points are over.</p>\n"
        f"<table>\n<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>\n{body}\n</table>\n"
        f"{_chart(curves)}</html>\n"
    )


def _row(row: SweepRow, *, is_best: bool) -> str:
    link = f'<a href="{escape(row.executed)}">{escape(row.executed)}</a>' if row.executed else ""
    cells = [f"<td>{escape(repr(value))}</td>" for value in row.parameters.values()]
    error = f"<br><small>{escape(row.error)}</small>" if row.error else ""
    cells.append(f'<td class="{escape(row.state.split()[0])}">{escape(row.state)}{error}</td>')
    best = " best" if is_best else ""
    cells.append(f'<td class="number{best}">{_text(row.loss, loss)}</td>')
    cells.append(f'<td class="number">{_text(row.samples_per_s, number)}</td>')
    cells.append(f'<td class="number">{_text(row.seconds, duration)}</td>')
    runs = "<br>".join(f"<small>{escape(run)}</small>" for run in row.runs)
    return f"<tr>{''.join(cells)}<td>{link}</td><td>{runs}</td></tr>"


def _text(value: float | None, how: Callable[[float | None], str]) -> str:
    return "" if value is None else escape(how(value))


def _chart(curves: Sequence[Curve]) -> str:
    """Return the curves as SVG, with a legend; nothing without any."""
    curves = [Curve(curve.parameters, [at for at in curve.points if math.isfinite(at[1])]) for curve in curves]
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return ""
    steps = [step for curve in curves for step, _ in curve.points]
    losses = [loss for curve in curves for _, loss in curve.points]
    first, last, low, high = min(steps), max(steps), min(losses), max(losses)
    inner_width, inner_height = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN

    def at(step: int, loss: float) -> str:
        x = _MARGIN + inner_width * (step - first) / max(1, last - first)
        y = _MARGIN + inner_height * (high - loss) / ((high - low) or 1.0)
        return f"{x:.1f},{y:.1f}"

    lines, legend = [], []
    for place, curve in enumerate(curves):
        colour, dash = _COLOURS[place % len(_COLOURS)], _DASHES[place // len(_COLOURS) % len(_DASHES)]
        path = " ".join(at(step, loss) for step, loss in curve.points)
        style = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"'
        lines.append(f'<polyline points="{path}" {style}/>')
        named = ", ".join(f"{name}={value!r}" for name, value in curve.parameters.items())
        swatch = f'<svg width="28" height="8"><line x2="28" y1="4" y2="4" {style}/></svg>'
        legend.append(f"<li>{swatch} {escape(named)}</li>")
    axis = 'font-size="12" fill="#555"'
    marks = (
        f'<text x="{_MARGIN}" y="{_MARGIN - 8}" {axis}>loss {escape(loss(high))}</text>'
        f'<text x="{_MARGIN}" y="{_HEIGHT - _MARGIN + 14}" {axis}>{escape(loss(low))} at step {first:,}</text>'
        f'<text x="{_WIDTH - _MARGIN}" y="{_HEIGHT - _MARGIN + 14}" text-anchor="end" {axis}>step {last:,}</text>'
    )
    return (
        f'<h2>Loss</h2>\n<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Loss over steps">'
        f"{marks}{''.join(lines)}</svg>\n<ul>{''.join(legend)}</ul>\n"
    )
