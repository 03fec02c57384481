"""Times changes of a pipeline: each alone, then the best together, all in turns on the same machine.

Runs on: every rank; nothing here is a collective.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from jupyter_ddl.pipelines.properties import batches_until_cached
from jupyter_ddl.pipelines.stopwatch import Feed, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# What helps gains this much at least, and in every round.
LEAST_GAIN = 1.05
_WARM_BATCHES = 2  # tracing, and the first fill of what is shuffled


@dataclass(frozen=True)
class Change:
    """A change of a pipeline.

    Attributes:
        name: what it is, e.g. "map in parallel".
        code: how one writes it.
        make: makes the changed pipeline; the second argument, where it is not None, is how many elements a cache may
            hold, so that a measurement need not read all data first.
    """

    name: str
    code: str
    make: Callable[[Any, int | None], Any]


@dataclass(frozen=True)
class Row:
    """One change, as it was measured.

    Attributes:
        change: what it is.
        code: how one writes it.
        gain: how many times as fast the pipeline is, with this change and those above it; alone, where it does not
            help.
        batches_per_s: in that form.
        helps: whether it is advised.
        helps_alone: whether it would be advised without the others.
    """

    change: str
    code: str
    gain: float
    batches_per_s: float
    helps: bool
    helps_alone: bool = False


@dataclass(frozen=True)
class Gain:
    """How much faster one pipeline is than another.

    Attributes:
        times: the median over the rounds.
        is_real: it is worth having, and no round says otherwise.
        batches_per_s: of the faster one; the median over the rounds.
    """

    times: float
    is_real: bool
    batches_per_s: float

    @classmethod
    def of(cls, rates: Sequence[float], others: Sequence[float]) -> Gain:
        """Compare round with round: what slowed the machine in one slowed both."""
        rounds = [rate / other for rate, other in zip(rates, others, strict=True)]
        return cls(median(rounds), median(rounds) >= LEAST_GAIN and min(rounds) > 1, median(rates))


@dataclass(frozen=True)
class Trials:
    """Runs a pipeline in several forms.

    Attributes:
        step: what takes a batch; None drops it.
        batch_size: elements in a batch.
        slot_s: how long each form is measured, in all rounds together.
    """

    step: Callable[[Any], Any] | None
    batch_size: int
    slot_s: float

    def rates(self, datasets: Mapping[str, Any]) -> dict[str, list[float]]:
        """Return the batches per second of each dataset in each round."""
        feeds = {}
        for name, dataset in datasets.items():
            feeds[name] = Feed(dataset, self.step)
            feeds[name].warm(_WARM_BATCHES + batches_until_cached(dataset, self.batch_size))
        return measure(feeds, self.slot_s)

    def take(self, dataset: Any, changes: Sequence[Change], held: int) -> tuple[list[Row], Any]:
        """Try changes of a dataset.

        Args:
            dataset: the pipeline.
            changes: of it.
            held: elements that a cache holds while it is measured: as many as a measurement goes through.

        Returns:
            What helps, in the order in which to do it, then what does not; and the dataset with all that helps.
        """
        rates = self.rates({"": dataset, **{change.name: change.make(dataset, held) for change in changes}})
        alone = {name: Gain.of(each, rates[""]) for name, each in rates.items()}
        measured, best, times = dataset, dataset, 1.0
        rows: list[Row] = []
        for change in sorted(changes, key=lambda each: -alone[each.name].times):
            changed, gain = change.make(measured, held), alone[change.name]
            # One change may make another useless: a cache below a map that takes batches now.
            if changed is measured or not gain.is_real:
                continue
            if rows:
                both = self.rates({"before": measured, "after": changed})
                gain = Gain.of(both["after"], both["before"])
            if gain.is_real:
                measured, best, times = changed, change.make(best, None), times * gain.times
                rows.append(Row(change.name, change.code, times, gain.batches_per_s, helps=True, helps_alone=True))
        helpful = {row.change for row in rows}
        for change in changes:
            if change.name not in helpful:
                gain = alone[change.name]
                rows.append(
                    Row(change.name, change.code, gain.times, gain.batches_per_s, helps=False, helps_alone=gain.is_real)
                )
        return rows, best
