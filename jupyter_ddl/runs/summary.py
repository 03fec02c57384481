"""Summarises a run's metrics: the few figures that a list of runs shows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.sample_means import SampleMeans, mean, total

if TYPE_CHECKING:
    from jupyter_ddl.protocol.events import MetricsSample, ParametersLogged


class Summary:
    """Takes a run's samples and keeps sums."""

    def __init__(self) -> None:
        self._ranks: defaultdict[int, SampleMeans] = defaultdict(SampleMeans)
        self._model: str | None = None
        self._parameters: defaultdict[int, dict[str, Any]] = defaultdict(dict)

    def handle(self, sample: MetricsSample) -> None:
        """Take one rank's sample."""
        self._ranks[sample.rank].take(sample)
        self._model = sample.model or self._model

    def note_parameters(self, logged: ParametersLogged) -> None:
        """Take parameters of one rank."""
        self._parameters[logged.rank] |= logged.parameters

    def fields(self) -> dict[str, Any]:
        """Return `samples_per_s`, `loss`, `model` and `parameters`, as far as known.

        `samples_per_s` is of all ranks together, each over the time in which it trained; `loss` is the mean of the
        ranks' last ones; of a parameter that ranks have given different values, the lowest rank's counts.
        """
        # In the order of the ranks, as every view adds them: sums of floats differ in their last digit by their order.
        means = [self._ranks[rank].whole() for rank in sorted(self._ranks)]
        known = {
            "samples_per_s": total(one.samples_per_s for one in means),
            "loss": mean(one.loss for one in means),
            "model": self._model,
            "parameters": self._lowest_ranks_parameters() or None,
        }
        return {name: value for name, value in known.items() if value is not None}

    def _lowest_ranks_parameters(self) -> dict[str, Any]:
        together: dict[str, Any] = {}
        for rank in sorted(self._parameters):
            together = self._parameters[rank] | together
        return together
