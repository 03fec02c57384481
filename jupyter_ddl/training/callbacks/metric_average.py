"""Metrics of an epoch, averaged over the ranks."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import keras
import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.collectives import require_horovod


class MetricAverageCallback(keras.callbacks.Callback):
    """Average the loss and the metrics of each epoch over all ranks, every rank with the same weight.

    Must come before the callbacks that read metrics (ReduceLROnPlateau, EarlyStopping, ModelCheckpoint), or these
    would decide differently on each rank.

    Raises:
        InvalidInput: Horovod is not initialised.
    """

    def __init__(self) -> None:
        super().__init__()
        require_horovod("MetricAverageCallback")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Put the averages in `logs`, where the callbacks that come later read them.

        Collective: every rank must call this, in the same order.

        Raises:
            InvalidInput: the ranks have different metrics.
        """
        if logs is None:
            return
        every_rank: list[dict[str, Any]] = hvd.allgather_object(dict(logs), name="metric_average")
        _check_same_metrics(every_rank)
        for metric, own in logs.items():
            mean = np.mean([other[metric] for other in every_rank], axis=0, dtype=np.float64)
            logs[metric] = float(mean) if np.ndim(own) == 0 else mean


def _check_same_metrics(every_rank: list[dict[str, Any]]) -> None:
    for rank, other in enumerate(every_rank):
        if other.keys() != every_rank[0].keys():
            raise InvalidInput(
                "All ranks must have the same metrics.",
                f"rank 0 has {sorted(every_rank[0])}, rank {rank} has {sorted(other)}",
                "Compile and fit the model alike on all ranks; validate on all of them or on none.",
            )
