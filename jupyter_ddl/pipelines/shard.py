"""Takes one rank's part of a tf.data pipeline, as near to the source as the pipeline's meaning allows.

`Dataset.shard` at a pipeline's end throws away what has been read, decoded and cached; at its start it must be written
by the pipeline's author. Here the pipeline is made again from its recipe (lineage.py), with the shard where the author
would have put it: on the files, or on the elements before they are shuffled, mapped, cached or batched.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.pipelines.sharding import NOT_TAKEN_APART, Sharding

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Sharded:
    """A rank's part of a dataset.

    Attributes:
        dataset: the part.
        how: where it was taken, in words: "by file (8 files)", "by element, before shuffle and map".
        needs_like_order: below the shard the order is random or not known, so all ranks must draw the same one.
        unseeded: the operations below the shard that draw it without a seed of their own.

    Example:
        >>> sharded = data.shard_with_note(tf.data.Dataset.range(8).shuffle(8), 2, 0)
        >>> sharded.how
        'by element, before shuffle'
    """

    dataset: Any
    how: str
    needs_like_order: bool
    unseeded: tuple[str, ...] = ()


def shard(ds: Any, num_shards: int | None = None, index: int | None = None) -> Any:
    """Return this rank's part of a tf.data.Dataset.

    The parts of all ranks hold every element once, in each pass. Batch sizes, seeds and options stay as they are: a
    batch is a rank's. `cache(filename)` and `snapshot(path)` get a file of their own per rank. A dataset that was made
    before `jupyter_ddl` was imported, or by something other than tf.data's public functions, is dealt out as it comes,
    batch by batch, and a line says so.

    Runs on: every rank, with the same pipeline. Not a collective.

    Args:
        ds: the pipeline, as one process would have it.
        num_shards: the number of parts; by default Horovod's size.
        index: which of them, from 0; by default Horovod's rank.

    Raises:
        InvalidInput: it is no dataset; there is no such part; or the part depends on an order that each rank would
            draw for itself.

    Example:
        >>> part = data.shard(tf.data.Dataset.range(8), num_shards=2, index=1)
        >>> [int(element) for element in part]
        [1, 3, 5, 7]
    """
    num_shards, index = _place(num_shards, index)
    sharded = shard_with_note(ds, num_shards, index)
    if sharded.unseeded and _no_seed_for_all():
        raise InvalidInput(
            "Ranks that take their parts of one random order must draw the same order.",
            f"{' and '.join(sharded.unseeded)} without a seed, sharded {sharded.how}",
            "Pass seed=..., or call keras.utils.set_random_seed with the same number on all ranks first.",
        )
    if index == 0 and sharded.how.endswith(NOT_TAKEN_APART):
        print(f"Data: sharded {sharded.how}. It must give the same order on all ranks.")
    return sharded.dataset


def shard_with_note(
    ds: Any, num_shards: int, index: int, watch: Callable[[Any], Any] = lambda source: source
) -> Sharded:
    """Return part `index` of `num_shards` of a dataset, with a description.

    Args:
        ds: the pipeline, as one process would have it.
        num_shards: the number of parts.
        index: which of them, from 0.
        watch: called with each sharded source, which must be alike on all ranks; returns its replacement.

    Raises:
        InvalidInput: it is no dataset, or there is no such part.

    Example:
        >>> sharded = data.shard_with_note(tf.data.Dataset.range(8), num_shards=2, index=1)
        >>> len(list(sharded.dataset))
        4
    """
    if not isinstance(ds, tf.data.Dataset):
        raise InvalidInput(
            "shard takes a tf.data.Dataset.", type(ds).__name__, "For arrays, use tf.data.Dataset.from_tensor_slices."
        )
    if not 0 <= index < num_shards:
        raise InvalidInput(
            "Shards are numbered from 0.", f"shard {index} of {num_shards}", "Pass hvd.size() and hvd.rank()."
        )
    if num_shards == 1:
        return Sharded(ds, "whole", needs_like_order=False)
    sharding = Sharding(num_shards, index, may_come_in_any_order=ds.options().deterministic is False, watch=watch)
    dataset = sharding.part(ds, index)
    return Sharded(dataset, sharding.how(), sharding.needs_like_order, tuple(dict.fromkeys(sharding.unseeded)))


def _place(num_shards: int | None, index: int | None) -> tuple[int, int]:
    if num_shards is not None and index is not None:
        return num_shards, index
    import horovod.tensorflow as hvd

    return (hvd.size() if num_shards is None else num_shards), (hvd.rank() if index is None else index)


def _no_seed_for_all() -> bool:
    """Return whether TensorFlow has no global seed, from which operations without one of their own derive theirs."""
    seed, _ = tf.compat.v1.get_seed(None)
    return seed is None
