"""Times changes of a pipeline: each alone, then the best together, all in turns on the same machine.

Runs on: every rank; nothing here is a collective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.pipelines.properties import batches_until_cached
from jupyter_ddl.pipelines.stopwatch import ROUNDS, Feed, measure, median

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_ddl.pipelines.speedups import Change

# What helps gains this much at least, and in every round.
LEAST_GAIN = 1.05
_WARM_BATCHES = 2  # tracing, and the first fill of what is shuffled


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
class Tried:
    """A change, as it was measured.

    Attributes:
        times: what it gains against the pipeline as it is: with those that helped before it; else alone.
        batches_per_s: in that form.
        helps: it is worth having, in addition to those before it.
        helps_alone: it is worth having without them.
    """

    change: Change
    times: float
    batches_per_s: float
    helps: bool
    helps_alone: bool


class Trials:
    """Runs a pipeline in several forms.

    Attributes:
        held: elements that a cache holds while it is measured: as many as a measurement goes through.
    """

    def __init__(self, step: Callable[[Any], Any] | None, batch_size: int, slot_s: float) -> None:
        """Run pipelines.

        Args:
            step: what takes a batch; None drops it.
            batch_size: elements in a batch.
            slot_s: how long each form is measured, in all rounds together.
        """
        self.held = 1
        self._step = step
        self._batch_size = batch_size
        self._slot_s = slot_s

    def rates(self, datasets: Mapping[str, Any]) -> dict[str, list[float]]:
        """Return the batches per second of each dataset in each round."""
        feeds = {}
        for name, dataset in datasets.items():
            feeds[name] = Feed(dataset, self._step)
            feeds[name].warm(_WARM_BATCHES + batches_until_cached(dataset, self._batch_size))
        return measure(feeds, self._slot_s / ROUNDS)

    def take(self, dataset: Any, changes: Sequence[Change]) -> tuple[list[Tried], Any]:
        """Try changes of a dataset.

        Returns:
            What helps, in the order in which to do it, then what does not; and the dataset with all that helps.
        """
        alone = self._alone(dataset, changes)
        measured, best, times = dataset, dataset, 1.0
        helpful: list[Tried] = []
        for change in sorted(changes, key=lambda each: -alone[each.name].times):
            changed = change.make(measured, self.held)
            # One change may make another useless: a cache below a map that takes batches now.
            if changed is measured or not alone[change.name].is_real:
                continue
            gain = self._gain(changed, measured) if helpful else alone[change.name]
            if gain.is_real:
                measured, best, times = changed, change.make(best, None), times * gain.times
                helpful.append(Tried(change, times, gain.batches_per_s, helps=True, helps_alone=True))
        done = {tried.change.name for tried in helpful}
        gains = {each: alone[each.name] for each in changes if each.name not in done}
        others = [Tried(each, gain.times, gain.batches_per_s, False, gain.is_real) for each, gain in gains.items()]
        return [*helpful, *others], best

    def _alone(self, dataset: Any, changes: Sequence[Change]) -> dict[str, Gain]:
        forms = {change.name: change.make(dataset, self.held) for change in changes}
        rates = self.rates({"": dataset, **forms})
        return {name: Gain.of(each, rates[""]) for name, each in rates.items()}

    def _gain(self, dataset: Any, other: Any) -> Gain:
        rates = self.rates({"before": other, "after": dataset})
        return Gain.of(rates["after"], rates["before"])
