"""Gives the sampler the figures of a loop of PyTorch's: a source of the meter.

Runs on: every rank; `read` is called in the sampler's thread. Imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.meter import numbers_of, step_times
from jupyter_ddl.protocol.readings import TrainingReading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.engine.meter import Reports
    from jupyter_ddl.torch_training.steps import Steps, Waited

# A library's names for what is the loss, the first one that it logs.
_LOSSES = ("loss", "train_loss", "train/loss", "train_loss_step", "training_loss")


class Source:
    """One rank's current cell.

    Args:
        steps: of the cell.
        reports: what the cell reports by `jupyter_ddl.report`.
        name: the optimizer, and how many parameters it has.
    """

    def __init__(self, steps: Steps, reports: Reports, name: str) -> None:
        self._steps = steps
        self._reports = reports
        self._name = name
        self._late: list[Waited] = []
        self._waits = False
        self._logged: dict[str, Any] = {}

    def log(self, values: Mapping[str, Any]) -> None:
        """Note what a library logs; what is no number is left out when it is read."""
        # Without what it was computed by, which would be kept.
        detached = {str(name): getattr(value, "detach", lambda value=value: value)() for name, value in values.items()}
        self._logged |= detached

    def read(self) -> TrainingReading | None:
        """Return the reading of the steps that ended since the last call; None where none did."""
        taken = self._steps.taken()
        # Also where no step has ended, so that no report counts as a step of its own.
        reported = self._reports.read()
        if not taken:
            return None
        waited_s = self._waited_s([step.waited for step in taken])
        samples = sum(step.samples for step in taken) if self._steps.has_samples else None
        times = step_times([step.seconds for step in taken], samples)
        if samples is None and reported is not None:
            times["samples_per_s"] = reported.samples_per_s
        step_s = times["step_s"]
        loss, metrics = self._figures()
        return TrainingReading(
            model=f"{self._name}, batch {self._steps.largest:,}" if self._steps.largest else self._name,
            step=self._steps.taken_in_all,
            epoch=self._steps.epoch,
            epoch_part=None if self._steps.epoch_part is None else min(1.0, self._steps.epoch_part),
            input_s=min(step_s, sum(step.input_s for step in taken) / len(taken)) if self._steps.has_samples else None,
            exchange_s=min(step_s, waited_s / len(taken)) if self._waits else None,
            loss=loss,
            metrics=metrics,
            **times,
        )

    def _waited_s(self, waits: list[Waited]) -> float:
        """Return what was waited: what a GPU has not done yet counts in the next reading."""
        self._late += waits
        waited_s = sum(one.take() for one in self._late)
        self._late = [one for one in self._late if one.events]
        self._waits = self._waits or waited_s > 0
        return waited_s

    def _figures(self) -> tuple[float | None, dict[str, float]]:
        """Return the loss and the metrics: those that the code reports, else those that a library logs."""
        numbers = numbers_of(dict(self._logged))
        loss, metrics = self._reports.said()
        named = next((name for name in _LOSSES if name in numbers), None)
        if loss is None and named is not None:
            loss = numbers.pop(named)
        return loss, numbers | metrics
