"""Shows the dashboard's figures in a plain terminal: one table that stays in place while the run lasts."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, TextIO

from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.protocol.number_texts import NOTHING, duration, loss, memory_size, number, percent
from jupyter_ddl.protocol.sample_means import mean
from jupyter_ddl.views.figures import Figures, figure

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.figures import RankFigures
    from jupyter_ddl.views.view import SingleRank, View

INTERVAL_S = 0.5
_COLUMNS = ("rank", "state", "step", "samples/s", "step ms", "input", "exchange", "loss", "RSS", "GPU", "GPU memory")
_WORST = ("lost", "failed", "straggler", "released", "waiting", "running", "training", "finished")


class MetricsTable:
    """A `View` that keeps a table under another view's output. Its methods must be called by one thread at a time.

    Where the output is no terminal, the table is printed once, at the end of the run.

    Args:
        output: prints what the ranks write.
        out: the terminal; default `sys.stdout`.
        interval_s: the least time between two tables.
        single_rank: returns one rank's samples/s with a model, for the scaling efficiency.
    """

    def __init__(
        self,
        output: View,
        out: TextIO | None = None,
        interval_s: float = INTERVAL_S,
        single_rank: SingleRank = lambda _: None,
    ) -> None:
        # Used alone where the table itself fails.
        self.output = output
        self._out = out or sys.stdout
        self._is_terminal = self._out.isatty()
        self._interval_s = interval_s
        self._figures = Figures(single_rank)
        self._shown = 0
        self._drawn_s: float | None = None

    def handle(self, event: Event) -> None:
        """Take an event; nothing is printed before `tick` or `flush`."""
        self._figures.handle(event)
        self.output.handle(event)

    def tick(self, now_s: float) -> None:
        """Print what the ranks wrote, and the table below it."""
        if not (self._is_terminal and self._trains()):
            self.output.tick(now_s)
            return
        if self._drawn_s is not None and now_s - self._drawn_s < self._interval_s:
            return
        self._drawn_s = now_s
        self._erase()
        self.output.tick(now_s)
        self._draw()

    def flush(self) -> None:
        """Print the rest and the final table."""
        self._erase()
        self.output.flush()
        if self._trains():
            self._out.write(f"{metrics_table(self._figures)}\n")
            self._out.flush()

    def _trains(self) -> bool:
        return any(rank.trained for rank in self._figures.ranks.values())

    def _erase(self) -> None:
        """Clear the table, and return to the line above it, which the other view may not have ended."""
        if self._shown:
            self._out.write(f"\r\x1b[{self._shown - 1}A\x1b[J\x1b[A" if self._shown > 1 else "\r\x1b[J\x1b[A")
            self._shown = 0

    def _draw(self) -> None:
        columns, rows = shutil.get_terminal_size()
        # The table must not scroll: lines that have left the screen cannot be rewritten.
        lines = metrics_table(self._figures, max(1, rows // 2 - 3)).splitlines()
        self._out.write("\n" + "\n".join(line[: columns - 1] for line in lines))
        self._out.flush()
        self._shown = len(lines)


def metrics_table(figures: Figures, most: int = 64) -> str:
    """Return the figures of each rank and of all as aligned text.

    Args:
        figures: what the run's events say.
        most: ranks to show; of more, the slowest and those in trouble.
    """
    ranks = _chosen(figures, most)
    rows = [_COLUMNS, *(_cells(figures, rank) for rank in ranks), _total(figures)]
    # A column without any measurement is left out.
    kept = [at for at in range(len(_COLUMNS)) if at < 2 or any(row[at] != NOTHING for row in rows[1:])]
    lines = aligned([[row[at] for at in kept] for row in rows], [place for place, at in enumerate(kept) if at != 1])
    hidden = len(figures.ranks) - len(ranks)
    if hidden:
        lines.insert(-1, f"... {hidden} more ranks, all faster and without trouble")
    return "\n".join([*lines, _summary(figures)])


def _chosen(figures: Figures, most: int) -> list[RankFigures]:
    """Return at most `most` ranks, in their order: chosen by the worst states first, then the slowest."""
    ranks = list(figures.ranks.values())
    if len(ranks) > most:

        def badness(rank: RankFigures) -> tuple[int, float]:
            return min(_WORST.index(rank.state), 3), figures.shown(rank).samples_per_s or 0.0

        ranks = sorted(ranks, key=badness)[:most]
    return sorted(ranks, key=lambda rank: rank.rank)


def _cells(figures: Figures, rank: RankFigures) -> tuple[str, ...]:
    sample, shown = rank.latest, figures.shown(rank)
    gpu_pct = figure(sample, "gpu_pct")
    return (
        str(rank.rank),
        rank.state,
        number(figure(rank.trained, "step")),
        number(shown.samples_per_s),
        number(_milli(shown.step_s)),
        _share(shown.input_s, shown.step_s),
        _share(shown.exchange_s, shown.step_s),
        loss(shown.loss),
        memory_size(figure(sample, "rss_bytes")),
        percent(None if gpu_pct is None else gpu_pct / 100),
        memory_size(figure(sample, "gpu_memory_used_bytes")),
    )


def _total(figures: Figures) -> tuple[str, ...]:
    current = list(figures.current.values())
    latest = [rank.latest for rank in figures.ranks.values() if rank.latest]
    steps = [figure(figures.ranks[rank].trained, "step") for rank in figures.current]
    memory = [sample.gpu_memory_used_bytes for sample in latest if sample.gpu_memory_used_bytes is not None]
    gpu_pct = mean(sample.gpu_pct for sample in latest)
    return (
        "all",
        _states(figures),
        number(max((step for step in steps if step is not None), default=None)),
        number(figures.samples_per_s),
        number(_milli(figures.step_s)),
        _share(mean(one.input_s for one in current), figures.step_s),
        _share(mean(one.exchange_s for one in current), figures.step_s),
        loss(figures.loss),
        memory_size(sum(sample.rss_bytes for sample in latest) or None),
        percent(None if gpu_pct is None else gpu_pct / 100),
        memory_size(sum(memory) or None),
    )


def _states(figures: Figures) -> str:
    counts = dict.fromkeys(_WORST, 0)
    for rank in figures.ranks.values():
        counts[rank.state] += 1
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def _summary(figures: Figures) -> str:
    parts = [figures.model or ""]
    efficiency = figures.efficiency
    if efficiency is not None:
        parts.append(f"scaling efficiency {percent(efficiency)}")
    if figures.outcome is not None:
        parts.append(f"{figures.outcome} after {duration(figures.seconds)}")
    parts.append(figures.progress.text)
    if figures.first_failure is not None:
        parts.append(f"rank {figures.first_failure.rank} raised {figures.first_failure.name}")
    elif figures.lost is not None:
        parts.append(figures.lost)
    return " · ".join(part for part in parts if part)


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _share(part: float | None, whole: float | None) -> str:
    return NOTHING if part is None or not whole else percent(part / whole)
