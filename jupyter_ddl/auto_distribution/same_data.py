"""Compares the ranks' arrays by their sizes, their dtypes and the contents of their rows.

A rank takes its rows by their numbers. Where each rank drew a split or a vocabulary by itself, some rows would be on
several ranks and others on none, silently.

Integers and words must be the same to the last bit. Fractions need not: a rank may have computed them on its own GPU.
For these, sums with random signs are compared, which a last digit changes little, and another order much.

Runs on: every rank.
"""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import arrays, hvd, ops

# Read of an array at most: some milliseconds.
READ_BYTES = 4 * 2**20
# Relative to the norm of an array. Sums of other rows differ by about the norm itself.
_TOLERANCE = 1e-3
_TOLERANCE_HALF = 1e-2
_SUMS = 2
_WORD = "The order of a set of words goes by their hashes."
_HASHES = (
    "The ranks hash strings differently, so a set of words has another order on each: set PYTHONHASHSEED=0 for all of "
    "them before they start."
)
_REMEDY = (
    "Give what draws or orders them one seed on all ranks: np.random.default_rng(1) in place of default_rng(), "
    "keras.utils.set_random_seed(1) before the data are made; and sorted(words) in place of set(words)."
)


@dataclass(frozen=True)
class Part:
    """What identifies one array of a rank's data.

    Attributes:
        name: where it is, e.g. "y" or "x['words']".
        kind: its dtype and its shape, for a message.
        checksum: of its rows, where they are whole numbers or words; of a large array, of the first rows and a spread
            of the others.
        sums: of the same rows, where they are fractions: with random signs.
        tolerance: by how much those may differ.
    """

    name: str
    kind: str
    checksum: int = 0
    sums: tuple[float, ...] = ()
    tolerance: float = 0.0

    def is_like(self, other: Part) -> bool:
        """Return whether the other one is equal."""
        if (self.name, self.kind, self.checksum) != (other.name, other.kind, other.checksum):
            return False
        bound = max(self.tolerance, other.tolerance)
        return all(abs(a - b) <= bound for a, b in zip(self.sums, other.sums, strict=True))


def are_alike(some: tuple[Part, ...], others: tuple[Part, ...]) -> bool:
    """Return whether two ranks have the same data, by their parts."""
    return len(some) == len(others) and all(a.is_like(b) for a, b in zip(some, others, strict=True))


def parts_of(read_bytes: int = READ_BYTES, /, **data: Any) -> tuple[Part, ...]:
    """Return what identifies each array of some data; other values are left out.

    Args:
        read_bytes: of an array, at most.
        **data: by their names: arrays, or structures (list, tuple, dict) of them.
    """
    return tuple(part for name, value in data.items() for part in _parts_of_value(name, value, read_bytes))


def vocabularies_of(model: Any) -> tuple[Part, ...]:
    """Return what identifies the vocabularies of a model's layers.

    They are no weights, which all ranks get from rank 0.
    """
    kinds = (keras.layers.StringLookup, keras.layers.IntegerLookup, keras.layers.TextVectorization)
    # Not by the layers' names, whose numbers are higher on a rank that has made one model more.
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, kinds)]
    tables = [(type(layer).__name__, layer.get_vocabulary()) for layer in layers]
    return tuple(
        Part(f"the vocabulary of {kind} {i + 1}", f"{len(words):,} words", zlib.crc32(repr(list(words)).encode()))
        for i, (kind, words) in enumerate(tables)
    )


def require_same(parts: tuple[Part, ...], what: str = "the data") -> None:
    """Raise where the ranks have different data.

    Collective: every rank must call this.

    Args:
        parts: this rank's.
        what: they are, for the message.

    Raises:
        InvalidInput: they differ; on every rank.
    """
    exact = [(part.name, part.kind, part.checksum) for part in parts]
    own = np.array([zlib.crc32(repr(exact).encode())], dtype=np.int64)
    everyone = ops.array(hvd.allgather(ops.tensor(own), name="checksums_of_data"))
    are_same = len(set(everyone.tolist())) == 1
    fractions = [number for part in parts for number in (*part.sums, part.tolerance)]
    if are_same and not fractions:
        return
    if are_same:
        sums = ops.array(hvd.allgather(ops.tensor(np.array([fractions], np.float64)), name="sums_of_data"))
        if (sums == sums[0]).all():
            return
    told = hvd.allgather_object((parts, hash(_WORD)), name="data_that_differ")
    if all(are_alike(told[0][0], parts) for parts, _ in told):
        return
    raise _differ([parts for parts, _ in told], len({number for _, number in told}) > 1, what)


def warn_of_hashes() -> None:
    """Warn on rank 0 if strings hash differently on the ranks: the data may not show the consequences.

    Collective: every rank must call this.
    """
    if len(set(hvd.allgather_object(hash(_WORD), name="hashes"))) > 1 and hvd.rank() == 0:
        print(f"WARNING: {_HASHES}", file=sys.stderr, flush=True)


def _differ(everyone: list[tuple[Part, ...]], hashes_differ: bool, what: str) -> InvalidInput:
    rank = next(rank for rank, parts in enumerate(everyone) if not are_alike(parts, everyone[0]))
    received = difference(everyone[0], everyone[rank], rank)
    # A word's number in `{word: i for i, word in enumerate(set(words))}` depends on it.
    by_hashes = f" {_HASHES}" if hashes_differ else ""
    return InvalidInput(
        f"With --auto all ranks have the same data, and each takes its part: {what} must be alike.",
        received,
        f"{_REMEDY}{by_hashes}",
    )


def difference(first: tuple[Part, ...], other: tuple[Part, ...], rank: int) -> str:
    """Describe what differs between the parts of rank 0 and those of another."""
    if [part.name for part in first] != [part.name for part in other]:
        names = [", ".join(part.name for part in parts) or "nothing" for parts in (first, other)]
        return f"{names[0]} on rank 0, {names[1]} on rank {rank}"
    one, another = next((a, b) for a, b in zip(first, other, strict=True) if not a.is_like(b))
    if one.kind != another.kind:
        return f"{one.name} of {one.kind} on rank 0, of {another.kind} on rank {rank}"
    return f"{one.name} ({one.kind}) with other rows on rank {rank} than on rank 0"


def _parts_of_value(name: str, value: Any, limit: int) -> list[Part]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [
            part for key in sorted(value, key=str) for part in _parts_of_value(f"{name}[{key!r}]", value[key], limit)
        ]
    if isinstance(value, (list, tuple)):
        return [part for i, each in enumerate(value) for part in _parts_of_value(f"{name}[{i}]", each, limit)]
    if not hasattr(value, "shape"):
        return []
    shape = tuple(value.shape)
    # A frame has a dtype for each column, and perhaps a column named so.
    dtype = None if hasattr(value, "iloc") else getattr(value, "dtype", None)
    kind = f"{getattr(dtype, 'name', None) or type(value).__name__} {shape}"
    return [_known_by(name, kind, value, limit)]


def _known_by(name: str, kind: str, value: Any, limit: int) -> Part:
    checksum, tolerance = 0, 0.0
    sums: tuple[float, ...] = ()
    for array in _flat(value):
        rows = _some_rows(array, limit)
        checksum = zlib.crc32(rows.dtype.name.encode(), checksum)
        # NumPy's own kinds of fractions, and TensorFlow's bfloat16.
        if rows.dtype.kind in "fc" or rows.dtype.name.startswith(("bfloat", "float")):
            found, norm = _signed_sums(rows)
            sums += found
            tolerance += norm * (_TOLERANCE_HALF if rows.dtype.itemsize < 4 else _TOLERANCE)
        else:
            checksum = zlib.crc32(_bytes(rows), checksum)
    return Part(name, kind, checksum, sums, tolerance)


def _signed_sums(rows: Any) -> tuple[tuple[float, ...], float]:
    """Return some sums of all elements with random signs, and their norm: about what such a sum is."""
    fractions = np.abs(rows) if rows.dtype.kind == "c" else rows.astype(np.float64)
    flat = np.nan_to_num(fractions, posinf=0.0, neginf=0.0).ravel()
    signs = np.random.default_rng(0)
    sums = (float(flat @ (signs.integers(0, 2, flat.size, dtype=np.int8) * 2.0 - 1.0)) for _ in range(_SUMS))
    return tuple(sums), float(np.sqrt(flat @ flat))


def _flat(value: Any) -> list[Any]:
    """Return the dense arrays that a value is made of."""
    if (parts := arrays.dense_parts(value)) is not None:
        return parts
    if hasattr(value, "tocsr"):
        rows = value.tocsr()
        return [rows.data, rows.indices, rows.indptr]
    return [value]


def _some_rows(array: Any, limit: int) -> Any:
    """Return all rows, or of a large array the first ones and as many of the others, evenly spread."""
    count = int(array.shape[0]) if len(array.shape) else 0
    if count < 2:
        return _as_array(array)
    first = array.iloc[:1] if hasattr(array, "iloc") else array[:1]
    row_bytes = max(len(_bytes(_as_array(first))), 1)
    wanted = max(limit // row_bytes, 2)
    if count <= wanted:
        return _as_array(array)
    half = wanted // 2
    numbers = np.unique(np.concatenate([np.arange(half), np.linspace(half, count - 1, half).astype(np.int64)]))
    if hasattr(array, "iloc"):
        return np.asarray(array.iloc[numbers])
    return ops.array(arrays.gathered(array, numbers)) if ops.is_tensor(array) else np.asarray(array[numbers])


def _as_array(value: Any) -> Any:
    return ops.array(value) if ops.is_tensor(value) else np.asarray(value)


def _bytes(array: Any) -> bytes | memoryview:
    if array.dtype.hasobject:
        # Words, or mixed columns: their own bytes are addresses.
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
