"""Checks that all ranks hold the same weights: after the first steps, and at the end of each epoch.

Runs on: every rank.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.protocol.cell_options import WARN
from jupyter_ddl.training.consistency.comparison import Comparison
from jupyter_ddl.training.fit import interrupted_fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.training.consistency import same_batches
    from jupyter_ddl.training.consistency.drift import Drift
    from jupyter_ddl.training.fit.first_batches import Batches

# Wrong initial weights show after one step; a layer that is not exchanged, after two; the third is a margin.
FIRST_STEPS = 3


@dataclass(frozen=True)
class Seen:
    """What this rank has seen of its data, and what gives the last batch."""

    batches: same_batches.Batches
    last_batch: Callable[[], Any]


class InStep(keras.callbacks.Callback):
    """Compares the weights, and whether the ranks agree to stop.

    Args:
        process_set: the ranks that train together.
        batches: what is known of their batches.
        on_drift: what to do where they differ, "stop" or "warn".
        seen: compares what is in the first batches, with the last batch of this rank's own; None not to.
    """

    def __init__(self, process_set: Any, batches: Batches, on_drift: str, seen: Seen | None = None) -> None:
        super().__init__()
        self._seen = seen
        self._process_set = process_set
        self._warns = on_drift == WARN
        self._has_warned = False
        self._first_steps = min(FIRST_STEPS, batches.fewest)
        self._steps = 0
        self._epoch = 0
        self._comparison: Comparison | None = None

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Find the step after which all ranks first compare: Keras may call this after several steps at once."""
        at_once = self.model.steps_per_execution
        self._first_steps = -(-self._first_steps // at_once) * at_once

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Note the epoch, for a report."""
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare once, after the first steps.

        Raises:
            RanksOutOfSync: the weights differ; on every rank.
        """
        if self._comparison is None:
            self._steps = batch
            if self._seen is not None:
                self._seen.batches.look(self._seen.last_batch())
            self.after_step()

    def after_step(self) -> None:
        """Count a step, also one in which this rank only takes part, and compare if it is the one for that.

        Raises:
            RanksOutOfSync: the weights differ; on every rank.
        """
        self._steps += 1
        if self._comparison is None and self._steps == self._first_steps:
            self._compare(first_steps=self._steps)
            if self._seen is not None:
                self._seen.batches.compare()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare, and stop all ranks where one stops: otherwise the next exchange would wait for it.

        Raises:
            RanksOutOfSync: the weights differ; on every rank.
        """
        stops = self._compare()
        if stops and len(stops) < self._process_set.size() and not self.model.stop_training:
            print(
                f"Training stops on all ranks, since it stopped on rank {', '.join(map(str, stops))}. Callbacks that "
                "stop training decide alike where MetricAverageCallback comes before them.",
                file=sys.stderr,  # not into the line of the epoch's progress bar
            )
        self.model.stop_training = bool(stops)

    def _compare(self, first_steps: int | None = None) -> list[int]:
        """Raise if the weights differ, or warn once; return the ranks that want to stop."""
        if self._comparison is None:
            self._comparison = Comparison(self.model, self._process_set)
        found = self._comparison.run(wants_to_stop=bool(self.model.stop_training))
        if not self._has_warned:
            drift = None
            if found.apart:
                drift = self._comparison.look_closely(epoch=self._epoch, first_steps=first_steps)
            if drift is not None:
                self._report(drift)
            else:
                interrupted_fit.in_step(self.model.optimizer)
        return found.stops

    def _report(self, drift: Drift) -> None:
        interrupted_fit.out_of_step(self.model.optimizer)
        if not self._warns:
            raise drift.error()
        # Weights that differ stay different, so once is enough.
        self._has_warned = True
        print(f"WARNING: {drift}", file=sys.stderr)
