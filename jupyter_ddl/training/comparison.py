"""Compares the ranks' weights cheaply, and closely only where a cheap look finds a difference.

The cheap look is one reduction of a few numbers a weight. Bits differ without fault where ranks have different
processors, so a difference counts only if it is far above rounding.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from jupyter_ddl.training.sync import RanksOutOfSync

if TYPE_CHECKING:
    from collections.abc import Sequence

# Ranks that round differently drift apart by about the machine epsilon times the root of the number of steps: this
# leaves room for a million steps. Ranks that train models of their own differ by more after one.
DRIFT_IN_EPSILONS = 1000
_BITS = {1: tf.int8, 2: tf.int16, 4: tf.int32, 8: tf.int64}


class Comparison:
    """The comparison of one list of weights, made once for a training.

    Args:
        weights: Keras variables, the same on all ranks in the same order.
        process_set: the ranks that hold them.
    """

    def __init__(self, weights: Sequence[Any], process_set: Any) -> None:
        self._weights = list(weights)
        self._process_set = process_set
        self._checksums = tf.function(self._checksums_of, autograph=False).get_concrete_function()

    def run(self, *, wants_to_stop: bool) -> list[int]:
        """Raise if the weights differ; return the ranks that want to stop.

        Collective: every rank of the process set must call this, with as many weights.

        Raises:
            RanksOutOfSync: the weights differ by more than rounding; on every rank.
        """
        mine = np.append(self._checksums().numpy(), int(wants_to_stop))
        # One reduction gives the least and, by the sign, the greatest of each.
        both = tf.constant(np.concatenate([mine, -mine]))
        least = hvd.allreduce(both, op=hvd.Min, name="in_step", process_set=self._process_set).numpy()
        low, high = least[: len(mine)], -least[len(mine) :]
        if (low[:-1] != high[:-1]).any():
            self._look_closely()
        if not high[-1]:
            return []
        return self._who(wants_to_stop)

    def _checksums_of(self) -> Any:
        return tf.stack([_checksum(weight) for weight in self._weights]) if self._weights else tf.zeros(0, tf.int64)

    def _who(self, wants_to_stop: bool) -> list[int]:
        every = hvd.allgather(tf.constant([wants_to_stop]), name="who_stops", process_set=self._process_set).numpy()
        return [rank for rank, wants in zip(self._ranks(), every, strict=True) if wants]

    def _look_closely(self) -> None:
        """Raise unless the difference is one of rounding."""
        root = self._ranks()[0]
        apart = []
        for i, weight in enumerate(self._weights):
            mine = tf.convert_to_tensor(weight)
            first = hvd.broadcast(mine, root, name=f"look_closely_{i}", process_set=self._process_set)
            apart.append(_drift(mine.numpy(), first.numpy()))
        table = hvd.allgather(tf.constant([apart]), name="look_closely", process_set=self._process_set).numpy()
        # Not "above": a rank whose weights are NaN differs too.
        differs = ~(table <= DRIFT_IN_EPSILONS)
        if differs.any():
            ranks = [rank for rank, row in zip(self._ranks(), differs, strict=True) if row.any()]
            weight = self._weights[int(np.flatnonzero(differs.any(axis=0))[0])]
            raise RanksOutOfSync(ranks, weight.path, hvd.size())

    def _ranks(self) -> list[int]:
        return list(self._process_set.ranks or range(hvd.size()))


def _checksum(weight: Any) -> Any:
    """Return a scalar int64 of the weight's bits: their sum, which rounding cannot blur."""
    value = weight.value if isinstance(weight, keras.Variable) else weight
    bits = tf.bitcast(value, _BITS[value.dtype.size])
    if "GPU" in value.device:
        # TensorFlow sums int32 on the host only.
        bits = tf.cast(bits, tf.int64)
    return tf.cast(tf.reduce_sum(bits), tf.int64)


def _drift(mine: Any, first: Any) -> float:
    """Return how far two arrays are apart: the norm of the difference, in machine epsilons of the norm.

    Two arrays that are NaN in the same places count as equal there.
    """
    if mine.dtype.kind not in "fV":
        return 0.0 if (mine == first).all() else float("inf")
    epsilon = float(np.finfo(mine.dtype).eps) if mine.dtype.kind == "f" else 2.0**-8  # bfloat16
    mine, first = mine.astype(np.float64), first.astype(np.float64)
    same = (mine == first) | (np.isnan(mine) & np.isnan(first))
    if same.all():
        return 0.0
    difference = np.linalg.norm(np.where(same, 0.0, mine - first))
    size = np.linalg.norm(first[np.isfinite(first)])
    return float(difference / (epsilon * max(size, np.finfo(np.float64).tiny)))
