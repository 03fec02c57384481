"""What a run's metrics come to: the few figures that a list of runs shows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.events import MetricsSample


class Summary:
    """Takes a run's samples and keeps sums."""

    def __init__(self) -> None:
        self._samples: defaultdict[int, float] = defaultdict(float)
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._loss: float | None = None
        self._model: str | None = None

    def handle(self, sample: MetricsSample) -> None:
        """Take one rank's sample."""
        if sample.samples_per_s is not None and sample.step_s is not None:
            seconds = sample.step_s * sample.steps
            self._samples[sample.rank] += sample.samples_per_s * seconds
            self._seconds[sample.rank] += seconds
        if sample.loss is not None:
            self._loss = sample.loss
        self._model = sample.model or self._model

    def fields(self) -> dict[str, Any]:
        """Return `samples_per_s` (of all ranks together, over the time in which each trained), `loss` and `model`.

        Only what is known: nothing where the run did not train.
        """
        rates = [self._samples[rank] / seconds for rank, seconds in self._seconds.items() if seconds > 0]
        known = {"samples_per_s": sum(rates) if rates else None, "loss": self._loss, "model": self._model}
        return {name: value for name, value in known.items() if value is not None}
