"""Finds ranks that train on the same batches: the commonest mistake in a program for Horovod, and a silent one.

The average of equal gradients is each of them, so the training looks right: as slow as on one rank, and as good.

In `fit` and `train_on_batch` the ranks compare what their first batches hold. A custom loop passes gradients only:
there each rank compares its own with the average, in the first exchanges of a cell, without a collective.

Runs on: every rank.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.training.backends import hvd, ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.engine.cells import Cell

# Compared in a cell, or fit: one batch may be alike by chance where the data have few values.
FIRST_BATCHES = 3
# Compared of each part of a batch, from its beginning.
_BYTES = 2**20
# With fewer different values in all, batches may be alike though their samples are others: zeros, XOR, class numbers.
_FEWEST_VALUES = 16
_FEWEST_SAMPLES = 16
_UNKNOWN = 0

DATASET = "dataset = dataset.shard(hvd.size(), hvd.rank()), before its shuffle and batch"
ARRAYS = "x, y = x[hvd.rank()::hvd.size()], y[hvd.rank()::hvd.size()]"
SEQUENCE = "index * hvd.size() + hvd.rank() in place of index in its __getitem__, and len // hvd.size() as its length"
GENERATOR = "batches = itertools.islice(batches, hvd.rank(), None, hvd.size()), or np.random.default_rng(hvd.rank())"
LOOP = f"{ARRAYS}; or {DATASET}"


@dataclass(frozen=True)
class _Looked:
    """What a batch holds, as far as it was looked at.

    Attributes:
        digest: of its bytes; never 0.
        rows: the bytes of each sample.
        values: some of its values.
    """

    digest: int
    rows: list[bytes]
    values: set[Any]


class Batches:
    """The first batches of a training on this rank.

    Args:
        process_set: the ranks that train together.
        remedy: the line to write.
        are_meant: the program says that ranks are to have the same batches.
        are_all: these are all batches of an epoch.
    """

    def __init__(self, process_set: Any, remedy: str, *, are_meant: bool = False, are_all: bool = False) -> None:
        self._process_set = process_set
        self._remedy = remedy
        self._are_meant = are_meant
        self._are_all = are_all
        self._looked: list[_Looked] = []

    def look(self, batch: Any) -> None:
        """Look at a batch of this rank's own: its tensors."""
        looked = None if batch is None else _looked_at(batch)
        if looked is not None and len(self._looked) < FIRST_BATCHES:
            self._looked.append(looked)

    def compare(self) -> None:
        """Warn, once in a cell and on one rank, where ranks have had the same batches.

        Collective: every rank of the process set must call this.
        """
        digests = [looked.digest for looked in self._looked] if self._tells_ranks_apart() else []
        mine = digests + [_UNKNOWN] * (FIRST_BATCHES - len(digests))
        own = ops.tensor(np.array([mine], np.int64))
        every = ops.array(hvd.allgather(own, name="same_batches", process_set=self._process_set))
        ranks = list(self._process_set.ranks or range(hvd.size()))
        alike: dict[tuple[int, ...], list[int]] = {}
        for rank, of_rank in zip(ranks, every.tolist(), strict=True):
            if any(of_rank):
                alike.setdefault(tuple(of_rank), []).append(rank)
        same = max(alike.values(), key=len, default=[])
        if len(same) > 1 and hvd.rank() == ranks[0] and not self._are_meant:
            _say(warning(same, len(ranks), self._remedy))

    def _tells_ranks_apart(self) -> bool:
        """Return whether other samples would have made other batches."""
        rows = [row for looked in self._looked for row in looked.rows]
        if self._are_all and len(rows) < _FEWEST_SAMPLES:
            # There are too few to give each rank a part.
            return False
        values = set().union(*(looked.values for looked in self._looked))
        return len(values) >= _FEWEST_VALUES and 2 * len(set(rows)) > len(rows)


def matter(process_set: Any) -> bool:
    """Return whether ranks that train on the same batches are a mistake in what runs now. Alike on all ranks."""
    options = run_context.options()
    is_ours = options.auto is not None or options.independent
    return not is_ours and hvd.is_initialized() and process_set.size() > 1


def compares(exchange: Any) -> bool:
    """Return whether this rank compares its gradients with what such an exchange gives: the first of its ranks does."""
    set_ = exchange.process_set
    if exchange.op != hvd.Average or exchange.same_batches or not matter(set_):
        return False
    return bool(hvd.rank() == (set_.ranks or [0])[0])


def tolerance(exchange: Any) -> float:
    """Return how far the average of equal gradients may be off, in parts: by rounding, and more of what is compressed.

    Numbers that travelled as float16 are off by its epsilon.
    """
    return 2e-3 if exchange.compression is not hvd.Compression.none else 1e-6


def remedy_for(data: Any) -> str:
    """Return the line to write, by what a program gives to `fit`."""
    if hasattr(data, "element_spec"):
        return DATASET
    if hasattr(data, "__getitem__") and hasattr(data, "num_batches"):
        return SEQUENCE
    return GENERATOR if hasattr(data, "__next__") else ARRAYS


def warning(same: Sequence[int], world: int, remedy: str) -> str:
    """Return the warning.

    Args:
        same: the ranks that have the same batches.
        world: how many train together.
        remedy: the line to write.
    """
    which = f"the {world} ranks train" if len(same) == world else f"ranks {compact(same)} of {world} train"
    return (
        f"WARNING: {which} on the same batches, so they learn no more than one of them would. Give each rank a part "
        f"of its own: {remedy}. If it is meant, pass same_batches=True to hvd.DistributedOptimizer, or to "
        "hvd.DistributedGradientTape."
    )


class _Warned:
    """The cell, or script, in which this rank was warned."""

    def __init__(self) -> None:
        self.cell: Cell | None = None


def _say(text: str) -> None:
    running = run_context.current()
    warned = rank_state.here().part(_Warned)
    if running is None or running is not warned.cell:
        warned.cell = running
        print(text, file=sys.stderr)  # not into the line of an epoch's progress bar


def _looked_at(batch: Any) -> _Looked | None:
    parts = [_beginning(part) for part in ops.tensors_in(batch)]
    parts = [part for part in parts if part.size]
    if not parts:
        return None
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part.tobytes())
    number = int.from_bytes(digest.digest(), "little", signed=True) or 1
    several = [part for part in parts if part.ndim]
    samples = min(map(len, several), default=0)
    rows = [b"".join(part[number].tobytes() for part in several) for number in range(samples)]
    few = np.concatenate([part.reshape(-1)[:4096].astype(object) for part in parts])
    return _Looked(number, rows, {value for value in few if value == value})


def _beginning(part: Any) -> Any:
    """Return the first samples of a part of a batch, on the host."""
    if ops.rank_of(part) == 0:
        return ops.array(part)
    size = ops.itemsize(part) or 1
    sample_bytes = max(1, int(np.prod(part.shape[1:])) * size)
    taken = ops.array(part[: max(1, _BYTES // sample_bytes)])
    return taken.astype("S") if taken.dtype == object else taken
