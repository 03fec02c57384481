"""Reports to the sampler how fast `fit` trains, and what a step's time is spent on.

Runs on: every rank. The callback runs in the main thread, `read` in the sampler's.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.meter import largest_batch, number_of, step_times
from jupyter_ddl.protocol.readings import TrainingReading
from jupyter_ddl.training.backends.interface import Sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.training.backends.interface import Clock

# The main thread continues while the sampler's thread reads.
_TRIES = 3


class Telemetry(keras.callbacks.Callback):
    """A source of the meter while `fit` runs. It must come before every other callback.

    It asks for `_model`: on JAX `model` gives the model its variables back from the step that runs, which the sampler's
    thread must not. Source: keras 3.15, src/callbacks/callback.py

    The wait for batches is the difference of two sums: when the batches were there, and when they were requested.

    Args:
        clock: returns what measures the steps of the model; None before its step is made.
        is_first: whether this rank reports the epochs: of ranks that train together one does.
    """

    def __init__(self, clock: Callable[[], Clock | None], *, is_first: bool = True) -> None:
        super().__init__()
        self._clock = clock
        self._is_first = is_first
        # Of the main thread alone: the steps that have ended, and the epoch that has, with its logs and its end's time.
        self._taken = 0
        self._ended: tuple[int, Any, float] | None = None
        # The current epoch, and the steps that were taken before it: one object, for the sampler's thread.
        self._epoch: tuple[int, int] = (0, 0)
        # How many epochs there are to be, and how many steps each has; None where that is not known.
        self._epochs: int | None = None
        self._epoch_steps: int | None = None
        self._steps = 0
        # The steps of the run's trainings before this one.
        self._steps_before = 0
        self._logs: Any = None
        # Appended to by the main thread, emptied by the other.
        self._durations_s: list[float] = []
        self._mark_s: float | None = None
        # Over all steps: how many began, the sum of their times, and the last one's time. One object, so that all are
        # of the same moment.
        self._asked: tuple[int, float, float] = (0, 0.0, 0.0)
        self._input_s = 0.0
        self._before = Sums()
        self._told = Sums()
        self._told_input: tuple[int, float] = (0, 0.0)
        # The largest batch so far, and the sums up to which batches were looked at; None before the first has ended.
        self._largest = 0
        self._looked: Sums | None = None
        # The steps that the clock had counted when Keras began the last call of its train function.
        self._begun_steps = 0

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Attach this source."""
        # A CallbackList of the user's own has none.
        known = self.params or {}
        if self._is_first:
            self._epochs, self._epoch_steps = known.get("epochs"), known.get("steps")
        clock = self._clock()
        if clock is not None:
            self._before = clock.read()
            self._told = replace(self._told, exchange_s=self._before.exchange_s)
            self._begun_steps = self._before.steps
        meter = rank_state.here().meter
        self._steps_before = meter.fit_steps
        meter.attach(self)

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Report the rest."""
        self._report_epoch(is_last=True)
        rank_state.here().meter.detach(self)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Leave out the steps that this rank took between epochs, with no batch of its own, for the others."""
        self._report_epoch(is_last=False)
        self._epoch, self._mark_s = (epoch, self._taken), None
        clock = self._clock()
        if clock is not None:
            sums = clock.read()
            self._asked = (sums.steps, sums.batch_s - self._input_s, 0.0)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keep the epoch's results, validation included: callbacks that come later put those of all ranks there."""
        self._logs, self._ended = logs, (epoch, logs, time.time())
        if self._is_first:
            # Of a generator Keras knows only now how many there are.
            self._epoch_steps = self._taken - self._epoch[1]
        clock = self._clock()
        if clock is not None:
            self._input_s = self._waited_s(clock.read(), self._asked) or self._input_s

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Note when the batch is requested."""
        now_s = time.time()
        if self._mark_s is None:
            self._mark_s = now_s
        clock = self._clock()
        if clock is not None:
            if self._model.steps_per_execution > 1:
                self._begun_steps = clock.read().steps
            count, total_s, _ = self._asked
            since_s = now_s - clock.origin_s
            self._asked = (count + 1, total_s + since_s, since_s)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Note how long it took, and keep the loss and the metrics, which are read when the sampler asks."""
        now_s = time.time()
        clock = self._clock()
        if clock is not None and self._looked is None:
            # Before the sampler's thread first reads, which is once a step has ended.
            self._look_at_batches(clock.read(), self._before)
        if self._mark_s is not None:
            meter = rank_state.here().meter
            meter.step_times.ended(self._mark_s, now_s)
            steps = self._steps_of_call(clock)
            self._durations_s.extend([(now_s - self._mark_s) / steps] * steps)
            self._taken += steps
            meter.fit_steps += steps
        self._mark_s = now_s
        self._logs = logs

    def _report_epoch(self, *, is_last: bool) -> None:
        ended, self._ended = self._ended, None
        if ended is not None and self._is_first:
            epoch, logs, at_s = ended
            step = self._steps_before + self._taken
            rank_state.here().meter.epochs.ended(epoch, step, at_s, _numbers(logs), is_last=is_last)

    def _steps_of_call(self, clock: Clock | None) -> int:
        """Return how many steps the train function has just taken: the last call of an epoch may take fewer."""
        at_once: int = self._model.steps_per_execution
        if at_once == 1 or clock is None:
            return at_once
        return min(max(1, clock.read().steps - self._begun_steps), at_once)

    def _look_at_batches(self, sums: Sums, since: Sums) -> None:
        """Note the largest batch of the steps between two sums."""
        steps = sums.steps - since.steps
        self._looked = sums
        if steps > 0:
            found = largest_batch(steps, sums.samples - since.samples, sums.squares - since.squares)
            self._largest = max(self._largest, found)

    def read(self) -> TrainingReading | None:
        """Return the reading of the steps that ended since the last call; None where none did."""
        durations_s = self._durations_s[:]
        del self._durations_s[: len(durations_s)]
        if not durations_s:
            return None
        self._steps += len(durations_s)
        samples, input_s, exchange_s = self._where_time_went(len(durations_s))
        times = step_times(durations_s, samples)
        metrics = _numbers(self._logs)
        epoch, before = self._epoch
        return TrainingReading(
            step=self._steps_before + self._steps,
            model=self._name(),
            epoch=epoch,
            # The wait of the current step may be counted already: it is not part of the steps that have ended.
            input_s=None if input_s is None else min(input_s, times["step_s"]),
            exchange_s=None if exchange_s is None else min(exchange_s, times["step_s"]),
            loss=metrics.pop("loss", None),
            metrics=metrics,
            epochs=self._epochs,
            epoch_part=self._part(before),
            **times,
        )

    def _part(self, before: int) -> float | None:
        """Return which part of an epoch's steps has been taken, of which so many steps were before it."""
        return min(1.0, max(0, self._taken - before) / self._epoch_steps) if self._epoch_steps else None

    def _where_time_went(self, ended: int) -> tuple[float | None, float | None, float | None]:
        """Return the samples of the steps that ended, and of an average one the input and the exchange in seconds.

        The clock may be a step ahead, or several on a rank that took part in others' steps: only the part of its
        samples that belongs to the steps that ended here is reported, so that at the end all have been.
        """
        clock = self._clock()
        if clock is None:
            return None, None, None
        sums, asked = self._at_once(clock)
        if self._looked is not None:
            self._look_at_batches(sums, self._looked)
        steps = sums.steps - self._before.steps
        if steps <= 0:
            return None, None, None
        samples = (sums.samples - self._before.samples) * self._steps / steps
        before, self._told = self._told, replace(sums, samples=max(samples, self._told.samples))
        exchange_s = (sums.exchange_s - before.exchange_s) / ended if sums.exchange_s else None
        return self._told.samples - before.samples, self._input_of_a_step(sums, asked), exchange_s

    def _at_once(self, clock: Clock) -> tuple[Sums, tuple[int, float, float] | None]:
        """Return the clock's sums, and the requests at that moment; None where steps are too fast for both."""
        for _ in range(_TRIES):
            asked = self._asked
            sums = clock.read()
            if asked is self._asked:
                return sums, asked
        return sums, None

    def _input_of_a_step(self, sums: Sums, asked: tuple[int, float, float] | None) -> float | None:
        waited_s = self._waited_s(sums, asked) if asked is not None else None
        if waited_s is None:
            return None
        steps_before, waited_before_s = self._told_input
        self._told_input = self._steps, waited_s
        return max(0.0, waited_s - waited_before_s) / (self._steps - steps_before)

    def _waited_s(self, sums: Sums, asked: tuple[int, float, float]) -> float | None:
        """Return how long batches have been waited for in all; None where the two sums are not of the same steps.

        They are not while a step waits, which is then left out; nor where Keras takes several steps at once.
        """
        count, total_s, last_s = asked
        if count == sums.steps + 1:
            return sums.batch_s - (total_s - last_s)
        return sums.batch_s - total_s if count == sums.steps else None

    def _name(self) -> str:
        """Return what names the model and its largest batch, for figures of runs with one rank and with more."""
        # A step that XLA compiles has no figures.
        batch = f", batch {self._largest:,}" if self._largest else ""
        # Keras's count_params refuses subclasses that it takes for unbuilt.
        parameters = sum(math.prod(weight.shape) for weight in self._model.weights)
        return f"{type(self._model).__name__}, {parameters:,} parameters{batch}"


def _numbers(logs: Any) -> dict[str, float]:
    """Return Keras's logs as numbers, NaN and the infinities too; what is none is left out."""
    numbers: dict[str, float] = {}
    for name, value in dict(logs or {}).items():
        # Callbacks may put any value into the logs, arrays and texts too.
        if not isinstance(value, str | bytes):
            with suppress(TypeError, ValueError, AttributeError):
                numbers[str(name)] = number_of(value)
    return numbers
