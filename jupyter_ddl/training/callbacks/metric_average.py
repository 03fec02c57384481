"""Combines an epoch's metrics over all ranks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import global_process_set, hvd
from jupyter_ddl.training.fit.samples import Seen, samples_seen
from jupyter_ddl.training.metric_readings import Reading, State, combine, read, snapshot
from jupyter_ddl.training.requirements import require_horovod, require_member


class MetricAverageCallback(keras.callbacks.Callback):
    """Replace each rank's loss and metrics of an epoch by those over all ranks.

    The result is that of one process with the data of all ranks: a mean is weighed by the samples that each rank saw
    (validation by the samples of the validation), and other metrics of Keras (AUC, Precision, ...) are computed from
    what all ranks counted together, as are those of the user's own whose code only ever adds to their variables. A
    value that is neither (of a metric that sets its variables, or that a `train_step` or another callback logs) is
    averaged by the samples of the loss, where Keras counts these, and else with the same weight for each rank.

    Must come before the callbacks that read metrics (ReduceLROnPlateau, EarlyStopping, ModelCheckpoint), or these
    would decide differently on each rank.

    Args:
        device: Horovod's; unused, since the values are numbers in Python.
        process_set: the ranks that take part.

    Raises:
        InvalidInput: Horovod is not initialised, or this rank is not in the process set.

    Example:
        >>> average = hvd.callbacks.MetricAverageCallback()
        >>> stop = keras.callbacks.EarlyStopping("loss", patience=2)  # after it: all ranks stop together
        >>> history = model.fit(x, y, callbacks=[average, stop], verbose=0)
    """

    def __init__(self, device: str = "", process_set: Any = global_process_set) -> None:
        super().__init__()
        require_horovod("MetricAverageCallback")
        require_member(process_set, "MetricAverageCallback")
        self.device = device
        self.process_set = process_set
        self._trained: dict[str, State] | None = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Forget the last epoch."""
        self._trained = None

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Keep the training's counts: validation begins, in the same metrics."""
        if self._trained is None:
            self._trained = snapshot(self.model)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Put the values over all ranks in `logs`, where the callbacks that come later read them.

        Collective: every rank must call this, in the same order.

        Raises:
            InvalidInput: the ranks have different metrics.
        """
        if logs is None:
            return
        states = self._states()
        samples = Seen() if self.model is None else samples_seen(self.model)
        own: dict[str, Reading] = {}
        for name, value in _numbers(logs).items():
            of_phase = samples.validation if name.startswith("val_") else samples.training
            own[name] = read(value, states.get(name), of_phase)
        every_rank = hvd.allgather_object(own, name="metric_average", process_set=self.process_set)
        _check_same_metrics(every_rank)
        averages = {name: combine([rank[name] for rank in every_rank], states.get(name)) for name in own}
        _put(logs, averages)

    def _states(self) -> dict[str, State]:
        """Return the state of each metric at the end of its phase, by its name in the logs."""
        if self.model is None:
            return {}
        now = snapshot(self.model)
        if self._trained is None:
            return now
        return self._trained | {f"val_{name}": state for name, state in now.items()}


def _numbers(logs: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return what is a number or an array of numbers in the logs, by its name; a nested one's is "outer/inner"."""
    found: dict[str, Any] = {}
    for name, value in logs.items():
        if isinstance(value, dict):
            found |= _numbers(value, f"{prefix}{name}/")
        elif np.asarray(value).dtype.kind in "biuf":
            found[f"{prefix}{name}"] = value
    return found


def _put(logs: dict[str, Any], averages: dict[str, Any], prefix: str = "") -> None:
    for name, value in logs.items():
        if isinstance(value, dict):
            _put(value, averages, f"{prefix}{name}/")
        elif (average := averages.get(f"{prefix}{name}")) is not None:
            logs[name] = float(average) if np.ndim(average) == 0 else average


def _check_same_metrics(every_rank: list[dict[str, Any]]) -> None:
    for rank, other in enumerate(every_rank):
        if other.keys() != every_rank[0].keys():
            raise InvalidInput(
                "All ranks must have the same metrics.",
                f"rank 0 has {sorted(every_rank[0])}, rank {rank} has {sorted(other)}",
                "Compile and fit the model alike on all ranks; validate on all of them or on none.",
            )
