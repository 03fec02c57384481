"""Compares the ranks' weights cheaply, and closely only where a cheap look finds a difference.

The cheap look is one reduction of a few numbers a weight. Bits differ without fault where ranks have different
processors, so a difference counts only if it is far above rounding.

Runs on: every rank.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.consistency.drift import Drift, Weight
from jupyter_ddl.training.consistency.sync import path_in
from jupyter_ddl.training.optimizer.distribution import trained_together
from jupyter_ddl.training.optimizer.learning_rate import inner
from jupyter_ddl.training.optimizer.sharding import alike_variables

# Ranks that round differently drift apart by about the machine epsilon times the root of the number of steps: this
# leaves room for a million steps. Ranks that train models of their own differ by more after one.
DRIFT_IN_EPSILONS = 1000
# Each costs a broadcast of all weights. Where no two ranks agree, any may be called the reference.
_GROUPS = 3


@dataclass(frozen=True)
class _Group:
    """Ranks that hold the same weights, by position in the process set; and how far all ranks are from them.

    Attributes:
        members: the positions.
        differs: of each rank and weight, whether it is more than rounding.
        apart: of each rank and weight, the norm of the difference over the norm.
    """

    members: list[int]
    differs: Any
    apart: Any


@dataclass(frozen=True)
class Found:
    """What one comparison found.

    Attributes:
        apart: the weights' checksums differ; `Comparison.look_closely` finds whether by more than rounding.
        stops: the ranks that want to stop.
    """

    apart: bool
    stops: list[int]


class Comparison:
    """The comparison of the weights of a model, made once for a training.

    Args:
        model: with a distributed optimizer, the same on all ranks.
        process_set: the ranks that hold it.
    """

    def __init__(self, model: Any, process_set: Any) -> None:
        self._model = model
        self._weights = trained_together(model.optimizer, model.trainable_variables)
        self._process_set = process_set
        self._checksums = ops.bits_summed(self._weights)

    def run(self, *, wants_to_stop: bool) -> Found:
        """Return whether the weights' bits differ, and which ranks want to stop.

        Collective: every rank of the process set must call this, with as many weights.
        """
        mine = np.append(self._checksums(), int(wants_to_stop))
        # One reduction gives the least and, by the sign, the greatest of each.
        both = ops.tensor(np.concatenate([mine, -mine]))
        least = ops.array(hvd.allreduce(both, op=hvd.Min, name="in_step", process_set=self._process_set))
        low, high = least[: len(mine)], -least[len(mine) :]
        apart = bool((low[:-1] != high[:-1]).any())
        return Found(apart, self._who(wants_to_stop) if high[-1] else [])

    def look_closely(self, *, epoch: int, first_steps: int | None) -> Drift | None:
        """Return how the ranks differ; None where it is by rounding.

        Collective: every rank of the process set must call this.

        Args:
            epoch: the current one, from 1.
            first_steps: how many steps of it have been taken, where they are compared for the first time.
        """
        ranks = self._ranks()
        groups = self._groups(ranks)
        if len(groups[0].members) == len(ranks):
            return None
        group = max(groups, key=lambda each: len(each.members))
        differ = [position for position in range(len(ranks)) if position not in group.members]
        paths, optimizer, rates = self._told_by_all(differ, group.members)
        off = [number for number in range(len(self._weights)) if group.differs[differ, number].any()]
        return Drift(
            ranks=tuple(ranks[position] for position in differ),
            reference=tuple(ranks[position] for position in group.members),
            world_size=hvd.size(),
            weights=tuple(
                # NumPy's max gives nan where one of them is.
                Weight(paths[number], float(group.apart[differ, number].max()), len(self._weights[number].shape) > 1)
                for number in off
            ),
            matrices=sum(len(weight.shape) > 1 for weight in self._weights),
            since_epoch=epoch,
            first_steps=first_steps,
            optimizer=optimizer,
            rates=rates,
        )

    def _who(self, wants_to_stop: bool) -> list[int]:
        mine = ops.tensor(np.array([wants_to_stop]))
        every = ops.array(hvd.allgather(mine, name="who_stops", process_set=self._process_set))
        return [rank for rank, wants in zip(self._ranks(), every, strict=True) if wants]

    def _groups(self, ranks: list[int]) -> list[_Group]:
        """Return groups of ranks that hold the same weights but for rounding: as many as tell which is the largest."""
        groups: list[_Group] = []
        left = list(range(len(ranks)))
        while left and len(groups) < _GROUPS:
            group = self._group_of(ranks[left[0]], left)
            groups.append(group)
            left = [position for position in left if position not in group.members]
            if max(len(each.members) for each in groups) >= len(left):
                break
        return groups

    def _group_of(self, root: int, among: list[int]) -> _Group:
        """Return those ranks, by position, that hold what `root` does. Collective."""
        mine = []
        for i, weight in enumerate(self._weights):
            own = ops.tensor(weight)
            roots = hvd.broadcast(own, root, name=f"look_closely_{i}", process_set=self._process_set)
            mine.append(_drift(ops.array(own), ops.array(roots)))
        own = ops.tensor(np.array([mine], np.float32).reshape(1, len(mine), 2))
        table = ops.array(hvd.allgather(own, name="look_closely", process_set=self._process_set))
        epsilons, apart = table[..., 0], table[..., 1]
        # Not "above": a rank whose weights are NaN differs too.
        differs = ~(epsilons <= DRIFT_IN_EPSILONS)
        return _Group([position for position in among if not differs[position].any()], differs, apart)

    def _told_by_all(
        self, differ: list[int], members: list[int]
    ) -> tuple[list[str], tuple[str, ...], dict[int, float]]:
        """Return the weights' paths, what differs in the optimizer, and the learning rates where they do. Collective.

        An exchange gives all ranks the same gradients, so an optimizer's state stays alike though weights differ.
        """
        state = [(variable.path, digest(variable)) for variable in alike_variables(self._model.optimizer)]
        rate = getattr(inner(self._model.optimizer), "_learning_rate", None)
        own_rate = float(rate.numpy()) if isinstance(rate, keras.Variable) else None
        mine = ([path_in(self._model, weight) for weight in self._weights], state, own_rate)
        every = hvd.allgather_object(mine, name="drift", process_set=self._process_set)
        states = [state for _, state, _ in every]
        other, reference = states[differ[0]], states[members[0]]
        names = tuple(path for (path, a), (_, b) in zip(reference, other, strict=False) if a != b)
        rates = {rank: rate for rank, (_, _, rate) in zip(self._ranks(), every, strict=True) if rate is not None}
        return every[0][0], names, rates if len(set(rates.values())) > 1 else {}

    def _ranks(self) -> list[int]:
        return list(self._process_set.ranks or range(hvd.size()))


def digest(variable: Any) -> str:
    """Return a digest of a variable's value."""
    return hashlib.blake2b(np.ascontiguousarray(variable.numpy()).tobytes(), digest_size=8).hexdigest()


def _drift(mine: Any, first: Any) -> list[float]:
    """Return how far two arrays are apart: the norm of the difference over the norm, in machine epsilons and plain.

    Two arrays that are NaN in the same places count as equal there.
    """
    if mine.dtype.kind not in "fV":
        return [0.0, 0.0] if (mine == first).all() else [float("inf"), float("inf")]
    epsilon = float(np.finfo(mine.dtype).eps) if mine.dtype.kind == "f" else 2.0**-8  # bfloat16
    mine, first = mine.astype(np.float64), first.astype(np.float64)
    same = (mine == first) | (np.isnan(mine) & np.isnan(first))
    if same.all():
        return [0.0, 0.0]
    difference = np.linalg.norm(np.where(same, 0.0, mine - first))
    size = np.linalg.norm(first[np.isfinite(first)])
    apart = float(difference / max(size, np.finfo(np.float64).tiny))
    return [apart / epsilon, apart]
