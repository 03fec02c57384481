"""Draws the final state of a run as a picture (SVG), for a notebook that is read without a kernel.

Runs on: kernel, once at the end of a run. Colours are those of the dashboard (Okabe and Ito's, which the colour-blind
can tell apart); each state has a sign of its own besides.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.number_texts import counted, duration, loss, memory_size, milliseconds, number, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.sample_means import Mean
    from jupyter_ddl.views.figures import Figures, RankFigures

WIDTH = 920
_MARGIN = 20
_TABLE_MOST = 16
# As labextension/src/dashboard.css has them for a light page.
_COMPUTE, _EXCHANGE, _INPUT = "#00487a", "#c68600", "#a8487f"
_TROUBLE = ("failed", "lost", "straggler")
_STATES = {
    "waiting": ("○", "#767676"),
    "running": ("◔", "#767676"),
    "training": ("●", "#0072b2"),
    "straggler": ("▲", "#b35900"),
    "finished": ("✓", "#00785a"),
    "failed": ("✕", "#c2410c"),
    "released": ("◇", "#767676"),
    "lost": ("⌀", "#8f1d1d"),
}


class Canvas:
    """Collects SVG elements. Text is always escaped."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.top: list[str] = []

    def text(self, x: float, y: float, text: str, size: int = 12, fill: str = "#1f2328", **more: str) -> None:
        """Write text with its baseline at y."""
        attributes = "".join(f' {name.replace("_", "-")}="{escape(value)}"' for name, value in more.items())
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}"{attributes}>{escape(text)}</text>'
        )

    def over(self, x: float, y: float, text: str, size: int, fill: str, **more: str) -> None:
        """Write text above everything drawn, also later."""
        self.text(x, y, text, size, fill, **more)
        self.top.append(self.parts.pop())

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """Fill a rectangle."""
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>')

    def curve(
        self, x: float, y: float, width: float, height: float, title: str, points: Sequence[tuple[float, float]]
    ) -> None:
        """Draw a titled chart of one curve, from zero where the values are near it."""
        self.text(x, y - 8, title, 12, font_weight="600")
        points = [(place, value) for place, value in points if math.isfinite(value)]
        if len(points) < 2:
            self.text(x, y + height / 2, "too few samples for a curve", 11, "#59636e")
            return
        least, greatest = min(value for _, value in points), max(value for _, value in points)
        bottom = min(0.0, least)
        span = (greatest - bottom) or 1.0
        left, first, last = x + 56, points[0][0], points[-1][0]
        scale = (width - 56) / ((last - first) or 1.0)
        for value, at in ((greatest, y), (bottom, y + height)):
            self.box(left, at, width - 56, 0.6, "#d1d9e0")
            self.text(left - 6, at + 4, number(value), 10, "#59636e", text_anchor="end")
        path = " ".join(
            f"{left + (place - first) * scale:.1f},{y + height - (value - bottom) / span * height:.1f}"
            for place, value in points
        )
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{_COMPUTE}" stroke-width="1.6"/>')
        self.text(left, y + height + 14, f"{first:,.0f}", 10, "#59636e")
        self.text(x + width, y + height + 14, f"{last:,.0f}", 10, "#59636e", text_anchor="end")


def picture(figures: Figures) -> str:
    """Return the SVG of a run's state."""
    canvas = Canvas()
    y = _head(canvas, figures)
    half = (WIDTH - 3 * _MARGIN) / 2
    ranks = len(figures.ranks)
    points = [(place, value * ranks) for place, value in figures.rates.points()]
    canvas.curve(_MARGIN, y + 20, half, 90, f"samples/s of {counted(ranks, 'rank')} over seconds", points)
    canvas.curve(2 * _MARGIN + half, y + 20, half, 90, "loss over steps", figures.losses.points())
    y = (_table if ranks <= _TABLE_MOST else _strip)(canvas, figures, y + 160)
    height = y + _MARGIN / 2
    label = escape(f"Run {figures.run or ''}: {figures.outcome or 'running'}", quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="jupyter-ddl-final-state" role="img" aria-label="{label}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" width="100%" style="max-width:{WIDTH}px" font-family="sans-serif">'
        f'<rect width="{WIDTH}" height="{height:.0f}" rx="6" fill="#ffffff"/>{"".join(canvas.parts + canvas.top)}</svg>'
    )


def _head(canvas: Canvas, figures: Figures) -> float:
    state = "finished" if figures.outcome == "finished" else "failed" if figures.outcome else "training"
    sign, colour = _STATES[state]
    seconds = f" after {duration(figures.seconds)}" if figures.seconds is not None else ""
    canvas.text(_MARGIN, 30, f"{sign} {figures.outcome or 'running'}{seconds}", 16, colour, font_weight="600")
    canvas.text(WIDTH - _MARGIN, 30, figures.run or "", 11, "#59636e", text_anchor="end")
    canvas.text(_MARGIN, 48, figures.model or "", 11, "#59636e")
    y = 48
    problem = figures.first_failure and f"rank {figures.first_failure.rank}: {figures.first_failure.message}"
    if problem or figures.lost:
        y += 18
        canvas.text(_MARGIN, y, (problem or figures.lost or "").partition("\n")[0][:120], 12, _STATES["failed"][1])
    tiles = [("ranks", f"{len(figures.ranks):,}"), ("samples/s", number(figures.samples_per_s))]
    efficiency = figures.efficiency
    if efficiency is not None:
        tiles.append(("scaling efficiency", percent(efficiency)))
    tiles += [("loss", loss(figures.loss)), ("step", milliseconds(figures.step_s))]
    for at, (name, value) in enumerate(tiles):
        x = _MARGIN + at * (WIDTH - 2 * _MARGIN) / len(tiles)
        canvas.text(x, y + 26, name, 11, "#59636e")
        canvas.text(x, y + 48, value, 18, font_weight="600")
    return y + 66


def _table(canvas: Canvas, figures: Figures, y: float) -> float:
    columns = (
        (0, "rank"),
        (50, "state"),
        (180, "samples/s"),
        (270, "a step"),
        (620, "loss"),
        (710, "memory"),
        (800, "GPU"),
    )
    for x, name in columns:
        canvas.text(_MARGIN + x, y, name, 11, "#59636e")
    for x, name, colour in ((330, "compute", _COMPUTE), (412, "exchange", _EXCHANGE), (500, "input", _INPUT)):
        canvas.box(_MARGIN + x, y - 9, 10, 10, colour)
        canvas.text(_MARGIN + x + 14, y, name, 11, "#59636e")
    steps_s = [one.step_s for one in figures.current.values() if one.step_s is not None]
    slowest = max((step_s for step_s in steps_s if math.isfinite(step_s)), default=0.0)
    for rank in sorted(figures.ranks.values(), key=lambda one: one.rank):
        y += 19
        sign, colour = _STATES[rank.state]
        sample, shown = rank.latest, figures.shown(rank)
        canvas.text(_MARGIN, y, str(rank.rank))
        canvas.text(_MARGIN + 50, y, f"{sign} {rank.state}", 12, colour)
        canvas.text(_MARGIN + 180, y, number(shown.samples_per_s))
        _split(canvas, shown, _MARGIN + 270, y - 10, 320 / slowest if slowest > 0 else 0.0)
        canvas.text(_MARGIN + 620, y, loss(shown.loss))
        canvas.text(_MARGIN + 710, y, memory_size(None if sample is None else sample.rss_bytes))
        gpu_pct = None if sample is None else sample.gpu_pct
        canvas.text(_MARGIN + 800, y, percent(None if gpu_pct is None else gpu_pct / 100))
    return y + 8


def _split(canvas: Canvas, shown: Mean, x: float, y: float, scale: float) -> None:
    exchange_s, input_s = shown.exchange_s or 0.0, shown.input_s or 0.0
    compute_s = max(0.0, (shown.step_s or 0.0) - exchange_s - input_s)
    for seconds, colour in ((compute_s, _COMPUTE), (exchange_s, _EXCHANGE), (input_s, _INPUT)):
        if math.isfinite(seconds) and seconds * scale >= 0.1:
            canvas.box(x, y, seconds * scale, 11, colour)
            x += seconds * scale


def _strip(canvas: Canvas, figures: Figures, y: float) -> float:
    """Draw a cell for each rank, darker the faster it is, with a sign on those in trouble."""
    ranks = sorted(figures.ranks.values(), key=lambda one: one.rank)
    rates = {rank.rank: figures.shown(rank).samples_per_s for rank in ranks}
    # Only finite values have a colour; the table of few ranks has words for the rest.
    finite = [rate for rate in rates.values() if rate is not None and math.isfinite(rate)]
    least, greatest = min(finite, default=0.0), max(finite, default=0.0)
    states = ", ".join(
        f"{sum(rank.state == state for rank in ranks)} {state}"
        for state in _STATES
        if any(rank.state == state for rank in ranks)
    )
    title = f"samples/s of each rank, from {number(least)} (light) to {number(greatest)} (dark); {states}"
    canvas.text(_MARGIN, y, title, 12, font_weight="600")
    # As high as needed for all to fit, up to a limit for comfortable reading.
    per_row = max(32, 1 << math.ceil(math.log2(math.sqrt(len(ranks) * 4))))
    size = (WIDTH - 2 * _MARGIN) / per_row
    height = min(size, 20.0)
    # Ranks that are alike look alike: the tones span a tenth of the value at least.
    middle = (least + greatest) / 2
    span = min(least, middle * 0.95), max(greatest, middle * 1.05, 1e-9)
    paths: dict[str, list[str]] = {}
    for at, rank in enumerate(ranks):
        x, top = _MARGIN + at % per_row * size, y + 10 + at // per_row * height
        box = f"M{x:.1f} {top:.1f}h{size - 1:.1f}v{height - 1:.1f}h{1 - size:.1f}z"
        paths.setdefault(_fill(rank, rates[rank.rank], span), []).append(box)
        if rank.state in _TROUBLE:
            sign = _STATES[rank.state][0]
            canvas.over(x + size / 2, top + height / 2 + 3, sign, 10, "#ffffff", text_anchor="middle")
    for fill, boxes in paths.items():
        canvas.parts.append(f'<path fill="{fill}" d="{"".join(boxes)}"/>')
    return y + 18 + math.ceil(len(ranks) / per_row) * height


def _fill(rank: RankFigures, rate: float | None, span: tuple[float, float]) -> str:
    if rank.state in _TROUBLE:
        return _STATES[rank.state][1]
    if rate is None or not math.isfinite(rate):
        return "#d1d9e0"
    # In nine tones, as many as an eye distinguishes, and a path for each.
    share = round((rate - span[0]) / (span[1] - span[0]) * 8) / 8
    tone = [round(light + (dark - light) * share) for light, dark in ((205, 0), (225, 84), (240, 138))]
    return "#{:02x}{:02x}{:02x}".format(*tone)
