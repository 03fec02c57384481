"""A run's figures as they stand: what the terminal's table and the static picture show. Bounded memory.

The browser has its own, richer model (labextension/src/model); both read the same events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.events import (
    MetricsSample,
    OutputChunk,
    RankFailed,
    RankFinished,
    RankLost,
    RunFinished,
    RunStarted,
    StragglerMarked,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_ddl.events import Event
    from jupyter_ddl.views import SingleRank

State = Literal["waiting", "running", "training", "straggler", "finished", "failed", "released", "lost"]
MAX_POINTS = 256
# How long a rank's rate holds without a new sample.
HOLD_S = 5.0
_ENDED = ("finished", "failed", "released", "lost")


@dataclass
class RankFigures:
    """One rank: its state, its newest sample, and its newest sample of training steps."""

    rank: int
    state: State = "waiting"
    latest: MetricsSample | None = None
    trained: MetricsSample | None = None


@dataclass
class Curve:
    """A mean over an axis in at most `MAX_POINTS` bins, which double in width when they would be more."""

    width: float = 1.0
    bins: dict[int, tuple[float, int]] = field(default_factory=dict)

    def add(self, place: float, value: float) -> None:
        """Take a value at a place on the axis."""
        bin_ = int(place // self.width)
        total, count = self.bins.get(bin_, (0.0, 0))
        self.bins[bin_] = total + value, count + 1
        while len(self.bins) > MAX_POINTS:
            self.width *= 2
            joined: dict[int, tuple[float, int]] = {}
            for old, (part, n) in self.bins.items():
                before, m = joined.get(old // 2, (0.0, 0))
                joined[old // 2] = before + part, m + n
            self.bins = joined

    def points(self) -> list[tuple[float, float]]:
        """Return the bins' middles and means, in order."""
        return [((bin_ + 0.5) * self.width, total / n) for bin_, (total, n) in sorted(self.bins.items())]


class Figures:
    """Reads a run's events.

    Attributes:
        run: its id; None before the first event that names it.
        outcome: None while it goes on.
        ranks: by rank.
        rates: the mean rank's samples/s over time.
        losses: the mean loss over steps.
        single_rank_samples_per_s: what one rank alone makes of the model; None where that is not known.

    Args:
        single_rank: returns that, once the model is known.
    """

    def __init__(self, single_rank: SingleRank = lambda _: None) -> None:
        self._single_rank = single_rank
        self.single_rank_samples_per_s: float | None = None
        self.run: str | None = None
        self.outcome: str | None = None
        self.seconds: float | None = None
        self.model: str | None = None
        self.ranks: dict[int, RankFigures] = {}
        self.rates = Curve()
        self.losses = Curve()
        self.first_failure: RankFailed | None = None
        self.lost: str | None = None
        self._began_s: float | None = None
        self._newest_s = 0.0

    def handle(self, event: Event) -> None:
        """Take an event of the run."""
        if isinstance(event, MetricsSample):
            self._sample(event)
        elif isinstance(event, RunStarted):
            self.run = event.run
            for rank in event.ranks:
                self._arrive(rank)
        elif isinstance(event, OutputChunk):
            self._arrive(event.rank)
        elif isinstance(event, StragglerMarked):
            marked = self._arrive(event.rank)
            if marked.state not in _ENDED:
                marked.state = "straggler" if event.is_straggler else "training"
        elif isinstance(event, RankFinished):
            self._end(event.rank, "finished")
        elif isinstance(event, RankFailed):
            self._end(event.rank, "released" if event.released else "failed")
            if not event.released and (self.first_failure is None or event.at_s < self.first_failure.at_s):
                self.first_failure = event
        elif isinstance(event, RankLost):
            self._lose(event)
        elif isinstance(event, RunFinished):
            self.outcome, self.seconds = event.outcome, event.seconds

    @property
    def current(self) -> dict[int, MetricsSample]:
        """Each rank's figures that count: those of now, or, when the run is over, of its end."""
        return {
            rank.rank: rank.trained
            for rank in self.ranks.values()
            if rank.trained is not None
            and rank.state != "lost"
            and (
                self.outcome is not None or (rank.state not in _ENDED and self._newest_s - rank.trained.at_s <= HOLD_S)
            )
        }

    @property
    def samples_per_s(self) -> float | None:
        """Of all ranks that train."""
        rates = [sample.samples_per_s for sample in self.current.values() if sample.samples_per_s is not None]
        return sum(rates) if rates else None

    @property
    def efficiency(self) -> float | None:
        """Samples/s over what as many single ranks would do; None where that is not known."""
        total, ranks, single = self.samples_per_s, len(self.current), self.single_rank_samples_per_s
        return total / (single * ranks) if total is not None and single else None

    @property
    def loss(self) -> float | None:
        """The mean of the ranks' newest."""
        return mean(rank.trained.loss for rank in self.ranks.values() if rank.trained)

    def text(self) -> str:
        """Return the figures as a table for a reader without pictures."""
        from jupyter_ddl.views.metrics_table import metrics_table

        return metrics_table(self)

    def _sample(self, sample: MetricsSample) -> None:
        rank = self._arrive(sample.rank)
        rank.latest = sample
        self._newest_s = max(self._newest_s, sample.at_s)
        if self.model is None and sample.model is not None:
            self.model = sample.model
            self.single_rank_samples_per_s = self._single_rank(sample.model)
        if sample.step is None:
            return
        if rank.state == "running":
            rank.state = "training"
        if sample.samples_per_s is None:
            return
        rank.trained = sample
        if self._began_s is None:
            self._began_s = sample.at_s
        self.rates.add(max(0.0, sample.at_s - self._began_s), sample.samples_per_s)
        if sample.loss is not None:
            self.losses.add(sample.step, sample.loss)

    def _arrive(self, rank: int) -> RankFigures:
        figures = self.ranks.setdefault(rank, RankFigures(rank))
        if figures.state == "waiting":
            figures.state = "running"
        return figures

    def _end(self, rank: int, state: State) -> None:
        figures = self._arrive(rank)
        if figures.state != "lost":
            figures.state = state

    def _lose(self, event: RankLost) -> None:
        self.lost = self.lost or event.cause
        if event.rank is not None:
            self._arrive(event.rank).state = "lost"
            return
        for rank in self.ranks.values():
            if rank.state not in _ENDED:
                rank.state = "lost"


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of what is there; None of nothing."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def figure(sample: MetricsSample | None, name: str) -> float | None:
    """Return a sample's number of that name; None without a sample, or where it was not measured."""
    value: float | None = None if sample is None else getattr(sample, name)
    return value
