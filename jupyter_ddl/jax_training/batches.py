"""Spreads batches over the ranks, and finds ranks whose batches differ.

Under `--auto` all ranks read the same batches, as one process does, and each rank's devices get its rows. A batch whose
rows the devices do not divide evenly is computed whole on each: the numbers are those of one process.

Runs on: every rank.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.jax_training.arrays import of_all
from jupyter_ddl.jax_training.callbacks import note_samples
from jupyter_ddl.jax_training.processes import covers_ranks, gathered, is_auto

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class _Read:
    """What this rank has read in this cell.

    Attributes:
        checksum: of all batches so far.
    """

    def __init__(self) -> None:
        self.checksum = 0


def begin() -> None:
    """Begin a cell: what an earlier one has read, also where ranks differed, is forgotten."""
    rank_state.here().part(_Read).checksum = 0


def iterator(stock: Callable[..., Any], epochs: Any, distribution: Any) -> Iterator[Any]:
    """Yield the batches of one pass, as arrays of all ranks. Collective, at the first batch.

    At each one and at the end, where their number is not known.

    Raises:
        InvalidInput: the ranks' batches differ.
    """
    if not covers_ranks():
        yield from stock(epochs, distribution)
        return
    rows: int | None = None
    count = epochs.steps_per_epoch or epochs.num_batches
    is_counted = count is not None and count != float("inf")
    for batch in _while_all_have(epochs.data_adapter.get_jax_iterator(), is_counted=is_counted):
        parts = [part for part in jax.tree_util.tree_leaves(batch) if part is not None]
        if is_auto():
            _note(parts)
        if rows is None:
            rows = _rows(parts)
            _compare(parts, int(count) if is_counted else None)
        elif not is_auto() and rows != _rows(parts):
            raise InvalidInput(
                "With a distribution of the program's own all batches have one size.",
                f"{_rows(parts)} rows after {rows}",
                "Leave out the last samples of each pass, or write %%distributed --auto --batch global.",
            )
        made = distributed(batch)
        note_samples(jax.tree_util.tree_leaves(made)[0].shape[0])
        yield made


def distribute_data(stock: Callable[..., Any], data: Any, layouts: Any = None) -> Any:
    """Return one batch, as arrays of all ranks. Collective."""
    if not covers_ranks():
        return stock(data, layouts)
    parts = [part for part in jax.tree_util.tree_leaves(data) if part is not None]
    if is_auto():
        _note(parts)
    _compare(parts)
    return distributed(data)


def distributed(batch: Any) -> Any:
    """Return a batch that was read as arrays of all ranks."""
    distribution = keras.distribution.distribution()
    devices = distribution.device_mesh.shape[0]

    def spread(part: Any) -> Any:
        whole = np.asarray(part)
        layout = distribution.get_data_layout(whole.shape).backend_layout
        if not is_auto():
            return jax.make_array_from_process_local_data(layout, whole)
        if not whole.ndim or whole.shape[0] % devices:
            layout = jax.sharding.NamedSharding(layout.mesh, jax.sharding.PartitionSpec())
        return of_all(whole, layout)

    return jax.tree_util.tree_map(spread, batch)


def _while_all_have(batches: Iterable[Any], *, is_counted: bool) -> Iterator[Any]:
    """Yield batches; where they are not counted, as long as all ranks have one. Collective then, at each.

    Raises:
        InvalidInput: some ranks have one more than others, which would wait for them.
    """
    if is_counted:
        yield from batches
        return
    left = iter(batches)
    while True:
        batch = next(left, None)
        have = gathered(np.array([batch is not None]))[:, 0]
        if not have.any():
            return
        if not have.all():
            ranks = [rank for rank, has in enumerate(have) if not has]
            raise InvalidInput(
                "All ranks have as many batches.",
                f"none left on ranks {ranks}, where others have one",
                "Give each rank as many, or pass steps_per_epoch.",
            )
        yield batch


def _note(parts: list[Any]) -> None:
    read = rank_state.here().part(_Read)
    for part in parts:
        read.checksum = zlib.crc32(np.ascontiguousarray(part).tobytes(), read.checksum)


def _compare(parts: list[Any], count: int | None = None) -> None:
    """Compare the ranks' batches: their sizes, their number, and under --auto all that they have read so far.

    Raises:
        InvalidInput: they differ.
    """
    shapes = zlib.crc32(repr([(np.shape(part), str(part.dtype)) for part in parts]).encode())
    read = rank_state.here().part(_Read).checksum if is_auto() else 0
    every = gathered(np.array([shapes, read, count or 0], np.uint32))
    counts = every[:, 2].tolist()
    if len(set(counts)) > 1:
        raise InvalidInput(
            "All ranks have as many batches.",
            ", ".join(f"{number} on rank {rank}" for rank, number in enumerate(counts)),
            "Give each rank as many rows, or pass steps_per_epoch.",
        )
    rows = [tuple(row) for row in every[:, :2].tolist()]
    if len(set(rows)) == 1:
        return
    usual = max(rows, key=rows.count)
    ranks = [rank for rank, row in enumerate(rows) if row != usual]
    if len({shape for shape, _ in rows}) > 1:
        raise InvalidInput(
            "The ranks' batches have the same shapes and dtypes.",
            f"others on ranks {ranks}",
            "Give each rank as many rows.",
        )
    raise InvalidInput(
        "Under --auto with Keras on JAX all ranks read the same batches, of which each trains on its rows.",
        f"other samples on ranks {ranks}",
        "Read the same data on all ranks, in one order: shuffle with a seed, and draw from one that all ranks have.",
    )


def _rows(parts: list[Any]) -> int:
    return int(np.shape(parts[0])[0])
