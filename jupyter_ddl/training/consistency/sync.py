"""Proves that all ranks hold the same weights.

Runs on: every rank.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.training.backends import hvd
from jupyter_ddl.training.consistency.drift import Drift, Weight
from jupyter_ddl.training.requirements import require_horovod

if TYPE_CHECKING:
    from collections.abc import Sequence


def weights_checksum(model: Any) -> str:
    """Return a checksum of the model's trainable weights, equal only if every bit of them is equal.

    Example:
        >>> before = hvd.weights_checksum(model)
        >>> history = model.fit(x, y, verbose=0)
        >>> hvd.weights_checksum(model) == before
        False
    """
    return _combine(_digests(model))


def check_in_sync(model: Any) -> str:
    """Raise unless all ranks hold the same trainable weights; return their checksum.

    Weights that are not trained are left out: a BatchNormalization's moving averages are each rank's own.

    Collective: every rank must call this, in the same order.

    Args:
        model: a built Keras model.

    Raises:
        RanksOutOfSync: the weights differ, or the models do; on every rank.
        InvalidInput: Horovod is not initialised.

    Example:
        >>> history = model.fit(x, y, verbose=0)
        >>> hvd.check_in_sync(model) == hvd.weights_checksum(model)
        True
    """
    require_horovod("hvd.check_in_sync")
    every_rank: list[tuple[list[str], list[str]]] = hvd.allgather_object(
        (_digests(model), [path_in(model, weight) for weight in model.trainable_weights]), name="check_in_sync"
    )
    digests = [of_rank for of_rank, _ in every_rank]
    reference = most_common(digests)
    same = [rank for rank, of_rank in enumerate(digests) if of_rank == reference]
    if len(same) < len(digests):
        different = [rank for rank in range(len(digests)) if rank not in same]
        where = _differences(every_rank[0][1], reference, digests[different[0]])
        raise Drift(tuple(different), tuple(same), len(digests), where).error()
    return _combine(reference)


def path_in(model: Any, weight: Any) -> str:
    """Return a weight's path without the model's own name, which a Sequential model puts before it."""
    path: str = weight.path
    return path.removeprefix(f"{model.name}/")


def most_common(values: Sequence[Any]) -> Any:
    """Return the value that most have; of several such, the first."""
    return max(values, key=values.count)


def _digests(model: Any) -> list[str]:
    # In the model's order and without names: Keras's automatic ones differ where a rank has made one model more.
    return [
        hashlib.blake2b(np.ascontiguousarray(weight.numpy()).tobytes(), digest_size=8).hexdigest()
        for weight in model.trainable_weights
    ]


def _differences(paths: list[str], reference: list[str], other: list[str]) -> tuple[Weight, ...]:
    if len(reference) != len(other):
        return (Weight(f"the number of weights ({len(reference)} and {len(other)})"),)
    return tuple(Weight(path) for path, a, b in zip(paths, reference, other, strict=True) if a != b)


def _combine(digests: list[str]) -> str:
    return hashlib.blake2b("".join(digests).encode(), digest_size=8).hexdigest()
