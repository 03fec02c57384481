"""Computes a run's current figures, for the terminal's table and the static picture, in bounded memory.

The browser has its own, richer model (labextension/src/model); both read the same events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.protocol.events import (
    EpochEnded,
    MetricsSample,
    OutputChunk,
    RankFailed,
    RankFinished,
    RunFinished,
    RunStarted,
    StragglerMarked,
)
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.protocol.sample_means import FAR, Mean, SampleMeans, mean, total
from jupyter_ddl.views.fault import headline
from jupyter_ddl.views.training_progress import TrainingProgress

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.view import SingleRank

State = Literal["waiting", "running", "training", "straggler", "finished", "failed", "released", "lost"]
MAX_POINTS = 256
# How long a rank's rate counts without a new sample.
HOLD_S = 5.0
_ENDED = ("finished", "failed", "released", "lost")


@dataclass
class RankFigures:
    """One rank: its state, its newest sample, its newest sample of training steps, and their means."""

    rank: int
    state: State = "waiting"
    latest: MetricsSample | None = None
    trained: MetricsSample | None = None
    means: SampleMeans = field(default_factory=SampleMeans)

    @property
    def has_ended(self) -> bool:
        """Whether it takes part in the run no longer."""
        return self.state in _ENDED


@dataclass
class Curve:
    """A mean over an axis in at most `MAX_POINTS` bins, which double in width when they would be more."""

    width: float = 1.0
    bins: dict[int, tuple[float, int]] = field(default_factory=dict)

    def add(self, place: float, value: float) -> None:
        """Add a value at a place on the axis. Values that are not finite are left out of charts."""
        if not (abs(place) < FAR and abs(value) < FAR):
            return
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
        outcome: None while it runs.
        ranks: by rank.
        rates: the mean rank's samples/s over time.
        losses: the mean loss over steps.
        progress: how far the training is.
        single_rank_samples_per_s: what one rank alone reaches with the model; None where not known.

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
        self.progress = TrainingProgress()
        self.first_failure: RankFailed | None = None
        self.lost: str | None = None
        self._began_s: float | None = None
        self._newest_s = 0.0

    def handle(self, event: Event) -> None:
        """Take an event of the run."""
        if isinstance(event, MetricsSample):
            self._sample(event)
        elif isinstance(event, EpochEnded):
            self.progress.ended(event)
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
            self.progress.end()

    def shown(self, rank: RankFigures) -> Mean:
        """Return the figures of a rank that count: of all its steps once it has ended, of its last seconds before."""
        return rank.means.whole() if self.outcome is not None or rank.has_ended else rank.means.recent()

    @property
    def current(self) -> dict[int, Mean]:
        """Each rank's figures that count: of its last seconds, or, when the run is over, of all its steps."""
        ranks = [rank for rank in self.ranks.values() if rank.trained is not None]
        if self.outcome is None:
            ranks = [rank for rank in ranks if not rank.has_ended and self._is_new(rank)]
        return {rank.rank: self.shown(rank) for rank in sorted(ranks, key=lambda one: one.rank)}

    def means(self) -> dict[int, Mean]:
        """Return the means of all steps of each rank that trained."""
        return {rank.rank: rank.means.whole() for rank in self.ranks.values() if rank.trained is not None}

    def _is_new(self, rank: RankFigures) -> bool:
        return rank.trained is not None and self._newest_s - rank.trained.at_s <= HOLD_S

    @property
    def samples_per_s(self) -> float | None:
        """Of all ranks that train, or that have trained when the run is over."""
        return total(figures.samples_per_s for figures in self.current.values())

    @property
    def efficiency(self) -> float | None:
        """Samples/s relative to as many single ranks; None where not known."""
        rates = [one.samples_per_s for one in self.current.values() if one.samples_per_s is not None]
        rate, ranks, single = total(rates), len(rates), self.single_rank_samples_per_s
        # A share of NaN, of infinity or of zero means nothing.
        if rate is None or single is None or not 0 < single < math.inf:
            return None
        return rate / (single * ranks)

    @property
    def loss(self) -> float | None:
        """The mean of the ranks' newest."""
        return mean(self.ranks[rank].means.whole().loss for rank in sorted(self.ranks))

    @property
    def step_s(self) -> float | None:
        """A step, the mean of the ranks that count."""
        return mean(figures.step_s for figures in self.current.values())

    def _sample(self, sample: MetricsSample) -> None:
        rank = self._arrive(sample.rank)
        rank.latest = sample
        self.progress.sample(sample)
        if abs(sample.at_s) < FAR:
            self._newest_s = max(self._newest_s, sample.at_s)
        if self.model is None and sample.model is not None:
            self.model = sample.model
            self.single_rank_samples_per_s = self._single_rank(sample.model)
        if sample.step is None:
            return
        if rank.state == "running":
            rank.state = "training"
        rank.means.take(sample)
        if sample.samples_per_s is not None or sample.step_s is not None:
            rank.trained = sample
        if self._began_s is None:
            self._began_s = sample.at_s
        if sample.samples_per_s is not None:
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
        self.lost = self.lost or headline(event.fault)
        if event.rank in self.ranks:
            self._arrive(event.rank).state = "lost"
            return
        # No first rank is known, or it takes no part in this run: the whole job is gone with it.
        for rank in self.ranks.values():
            if rank.state not in _ENDED:
                rank.state = "lost"


def figure(sample: MetricsSample | None, name: str) -> float | None:
    """Return a sample's number of that name; None without a sample, or where it was not measured."""
    value: float | None = None if sample is None else getattr(sample, name)
    return value
