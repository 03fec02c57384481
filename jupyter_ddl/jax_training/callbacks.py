"""Chooses the callbacks of each rank, and reports how a training on JAX goes.

Runs on: every rank.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import keras

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput

# All ranks have the same logs; one rank's file is enough.
_ON_FIRST_RANK = (keras.callbacks.CSVLogger, keras.callbacks.RemoteMonitor, keras.callbacks.TensorBoard)
# How often a loss is read, for which a step must end.
_READ_EVERY_S = 0.5


def arranged(given: Any) -> list[Any]:
    """Return the callbacks of this rank: the program's, and the one that reports.

    Raises:
        InvalidInput: one of them restores weights on one rank only.
    """
    if isinstance(given, keras.callbacks.CallbackList):
        listed = list(given.callbacks)
    else:
        listed = [] if given is None else keras.tree.flatten(given)
    for callback in listed:
        if isinstance(callback, keras.callbacks.BackupAndRestore):
            raise InvalidInput(
                "BackupAndRestore saves and restores one process.",
                "it, with Keras on JAX on several ranks",
                "Use ModelCheckpoint, and load its file before fit.",
            )
    here = [each for each in listed if jax.process_index() == 0 or not isinstance(each, _ON_FIRST_RANK)]
    return [*here, Reports()]


class _Step:
    """The last step's batch.

    Attributes:
        samples: of all ranks.
    """

    def __init__(self) -> None:
        self.samples = 0


def note_samples(rows: int) -> None:
    """Note the rows of a batch of all ranks."""
    rank_state.here().part(_Step).samples = rows


def samples_of_step() -> float:
    """Return this rank's samples of the last step."""
    ranks: int = jax.process_count()
    return rank_state.here().part(_Step).samples / ranks


class Reports(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports each step's samples of this rank, and twice a second its loss and metrics."""

    def __init__(self) -> None:
        super().__init__()
        self._read_s = 0.0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's)
        """Report a step."""
        state = rank_state.of_process()
        if state is None:
            return
        loss, metrics = None, {}
        now = time.monotonic()
        if now - self._read_s >= _READ_EVERY_S:
            self._read_s = now
            metrics = {name: float(value) for name, value in (logs or {}).items()}
            loss = metrics.pop("loss", None)
        state.meter.reports.add(samples_of_step(), loss, metrics)
