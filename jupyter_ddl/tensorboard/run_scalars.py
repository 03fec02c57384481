"""Makes scalars of a run's events: of each rank, and of all ranks together. No callback of the program's is needed.

Of a rank: `metrics/...` and `speed/...` by its training steps, `usage/...` by seconds since the run began. Of all
ranks: the sum of their samples/s, the mean of the rest, and `epoch/...`, what each epoch came to, by epochs.

Runs on: TensorBoard's process, a terminal.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.events import EpochEnded, MetricsSample, RunStarted
from jupyter_ddl.protocol.readings import GpuReading, HostReading
from jupyter_ddl.tensorboard.event_files import EventFiles
from jupyter_ddl.tensorboard.installed import check_installed
from jupyter_ddl.tensorboard.run_events import RunEvents

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ALL = "all ranks"
MOST_RANKS = 64
"""Ranks below this have curves of their own: a sample takes 0.4 kB and 0.1 ms, and a thousand curves show nothing."""
_SUMMED = "speed/samples_per_s"
_SPEED = ("samples_per_s", "step_s", "step_p50_s", "step_p95_s", "input_s", "exchange_s")
_RESOURCES = ("cpu_pct", "rss_bytes", *(one.name for kind in (GpuReading, HostReading) for one in fields(kind)))
# A larger number is no step, and no time.
_FAR = 1 << 62


def exported(run: Path, into: Path) -> RunScalars:
    """Write what there is of a run's scalars to a folder of their own; return what writes the rest.

    Args:
        run: the run's folder.
        into: a folder that is not there yet, or is empty.

    Raises:
        InvalidInput: TensorBoard is not installed, the folder is not empty or cannot be written to, or nothing of the
            run was measured.
    """
    check_installed()
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        what = "which is not empty" if into.is_dir() else "which is a file"
        raise InvalidInput("Scalars are written to a folder of their own.", f"{into}, {what}", "Name another folder.")
    scalars = RunScalars(run, into)
    try:
        scalars.write_all()
    except OSError as error:
        rule = "Scalars are written to a folder that you may write to."
        raise InvalidInput(rule, f"{into} ({error.strerror or error})", "Name another folder.") from error
    if not into.exists():
        remedy = "Export a run that trained, or that took longer than a second."
        raise InvalidInput("A run that is exported has figures.", f"{run.name}, of which none were measured", remedy)
    return scalars


class RunScalars:
    """Writes the scalars of one run, those that are there and then what is new.

    Args:
        run: the run's folder.
        into: the folder to write to; `ALL` and each rank have a folder in it.
    """

    def __init__(self, run: Path, into: Path) -> None:
        self._events = RunEvents(run)
        self._files = EventFiles(into)
        self._began_s: float | None = None
        self._latest: dict[int, MetricsSample] = {}
        self._epochs_before = 0
        self._epoch = -1

    @property
    def is_over(self) -> bool:
        """Whether all of the run is written, and no more will come."""
        return self._events.is_over

    def write_all(self) -> None:
        """Write all that is there."""
        while self.write_on():
            pass

    def write_on(self) -> bool:
        """Write what is new, or a part of it; return whether there was something."""
        events = self._events.read()
        for event in events:
            if isinstance(event, RunStarted):
                self._began_s = event.at_s
            elif isinstance(event, MetricsSample):
                self._sample(event)
            elif isinstance(event, EpochEnded):
                self._ended(event)
        if self.is_over:
            self._all()
        self._files.flush()
        return bool(events)

    def _sample(self, sample: MetricsSample) -> None:
        if not abs(sample.at_s) < _FAR:
            return
        if self._began_s is None:
            self._began_s = sample.at_s
        trains = sample.step is not None and 0 <= sample.step < _FAR
        if sample.rank < MOST_RANKS:
            self._of_rank(sample, max(0, int(sample.at_s - self._began_s)), trains=trains)
        if not trains:
            return
        if sample.rank in self._latest:
            # Each rank reports once in an interval: with its next report the ranks' last ones are complete.
            self._all()
        self._latest[sample.rank] = sample

    def _of_rank(self, sample: MetricsSample, second: int, *, trains: bool) -> None:
        name = f"rank {sample.rank}"
        self._files.add(name, sample.at_s, second, _numbers(sample, "usage", _RESOURCES))
        if trains:
            assert sample.step is not None
            self._files.add(name, sample.at_s, sample.step, _of_training(sample))

    def _all(self) -> None:
        """Write what the ranks' last samples of training come to."""
        samples = list(self._latest.values())
        if not samples:
            return
        self._latest.clear()
        found = [_of_training(sample) for sample in samples]
        tags = dict.fromkeys(tag for one in found for tag in one)
        values = {tag: _together(tag, (one[tag] for one in found if tag in one)) for tag in tags}
        newest = max(samples, key=lambda sample: sample.step or 0)
        assert newest.step is not None
        self._files.add(ALL, newest.at_s, newest.step, values)

    def _ended(self, epoch: EpochEnded) -> None:
        if not abs(epoch.at_s) < _FAR or not 0 <= epoch.epoch < _FAR:
            return
        if epoch.epoch <= self._epoch:
            # Another `fit` of the run counts from 0 again.
            self._epochs_before += self._epoch + 1
        self._epoch = epoch.epoch
        values = {f"epoch/{name}": value for name, value in epoch.metrics.items()}
        self._files.add(ALL, epoch.at_s, self._epochs_before + epoch.epoch, values)


def _of_training(sample: MetricsSample) -> dict[str, float]:
    values = {f"metrics/{name}": value for name, value in sample.metrics.items()}
    loss = {} if sample.loss is None else {"metrics/loss": sample.loss}
    return loss | values | _numbers(sample, "speed", _SPEED)


def _numbers(sample: MetricsSample, group: str, names: Iterable[str]) -> dict[str, float]:
    """Return what was measured."""
    found = ((f"{group}/{name}", getattr(sample, name)) for name in names)
    return {tag: float(value) for tag, value in found if value is not None}


def _together(tag: str, values: Iterable[float]) -> float:
    """Return what the ranks' values come to."""
    found = list(values)
    # And not `fmean`, which raises where infinities of both signs meet.
    return sum(found) if tag == _SUMMED else sum(found) / len(found)
