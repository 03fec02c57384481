"""The proof that all ranks hold the same weights.

Runs on: every rank.
"""

from __future__ import annotations

import hashlib
from typing import Any

import horovod.tensorflow as hvd
import numpy as np

from jupyter_ddl.errors import DdlError
from jupyter_ddl.training.collectives import require_horovod


class RanksOutOfSync(DdlError):
    """The ranks hold different weights, so each has trained a model of its own.

    Attributes:
        ranks: those that differ from rank 0.
        weight: the first weight that differs, by its path in this rank's model, e.g. "dense/kernel".
    """

    def __init__(self, ranks: list[int], weight: str, world_size: int) -> None:
        self.ranks = ranks
        self.weight = weight
        who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
        super().__init__(
            f"All ranks must hold the same weights. Received: {who} of {world_size} "
            f"{'differs' if len(ranks) == 1 else 'differ'} from rank 0, first in {weight}. Wrap the optimizer with "
            "hvd.DistributedOptimizer and pass hvd.callbacks.BroadcastGlobalVariablesCallback(0) to fit."
        )


def weights_checksum(model: Any) -> str:
    """Return a checksum of the model's trainable weights, equal only if every bit of them is."""
    return _combine(_digests(model))


def check_in_sync(model: Any) -> str:
    """Raise unless all ranks hold the same trainable weights; return their checksum.

    Weights that are not trained stay out: a BatchNormalization's moving averages are each rank's own.

    Collective: every rank must call this, in the same order.

    Args:
        model: a built Keras model.

    Raises:
        RanksOutOfSync: the weights differ, or the models do; on every rank.
        InvalidInput: Horovod is not initialised.
    """
    require_horovod("hvd.check_in_sync")
    every_rank: list[list[str]] = hvd.allgather_object(_digests(model), name="check_in_sync")
    first = every_rank[0]
    different = [rank for rank, digests in enumerate(every_rank) if digests != first]
    if different:
        raise RanksOutOfSync(different, _first_difference(model, first, every_rank[different[0]]), len(every_rank))
    return _combine(first)


def _digests(model: Any) -> list[str]:
    # In the model's order and without names: Keras's automatic ones differ where a rank has made one model more.
    return [
        hashlib.blake2b(np.ascontiguousarray(weight.numpy()).tobytes(), digest_size=8).hexdigest()
        for weight in model.trainable_weights
    ]


def _first_difference(model: Any, first: list[str], other: list[str]) -> str:
    if len(first) != len(other):
        return f"the number of weights ({len(first)} and {len(other)})"
    position = next(i for i, (a, b) in enumerate(zip(first, other, strict=True)) if a != b)
    path: str = model.trainable_weights[position].path
    return path


def _combine(digests: list[str]) -> str:
    return hashlib.blake2b("".join(digests).encode(), digest_size=8).hexdigest()
