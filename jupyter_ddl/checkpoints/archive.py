"""Writes and reads a training's state: an .npz archive, with a description in JSON.

Nothing in it is pickled, so opening a checkpoint runs no code of its author's.

Runs on: rank 0.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

FORMAT = 1
_DESCRIPTION = "checkpoint.json"
_OF_A_RANK = re.compile(r"rank-(\d+)/(\d+)\.npy")


@dataclass(frozen=True)
class Described:
    """A variable, without its value."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} {list(self.shape)} {self.dtype}"


@dataclass(frozen=True)
class Contents:
    """The description in a checkpoint: all but the variables' values.

    Attributes:
        epoch: after which it was made, from 1.
        is_last: training was stopped after it.
        world_size: of the ranks that made it.
        variables: those of the model and its optimizer, in order.
        draws: for each rank, the states of its random number generators: when its cell began, and now.
        counters: what Keras's callbacks have counted.
        best: the dtypes of the weights that they keep, by callback.
    """

    epoch: int
    is_last: bool
    world_size: int
    variables: tuple[Described, ...]
    draws: tuple[dict[str, Any], ...]
    counters: dict[str, dict[str, Any]] = field(default_factory=dict)
    best: dict[str, list[str]] = field(default_factory=dict)


def write(
    file: BinaryIO,
    contents: Contents,
    values: Iterable[Any],
    own: Mapping[int, Mapping[int, Any]],
    best: Mapping[str, Sequence[Any]],
) -> None:
    """Write a state to an open file.

    Args:
        file: open for writing.
        contents: its description.
        values: rank 0's value of each variable, in order: arrays, taken one at a time.
        own: by rank, the values that differ from rank 0's, by the variable's number.
        best: the weights that callbacks keep, by the callback.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_DESCRIPTION, json.dumps({"format": FORMAT, **asdict(contents)}))
        for number, value in enumerate(values):
            _write_array(archive, _name(0, number), value)
        for rank, of_rank in own.items():
            for number, value in of_rank.items():
                _write_array(archive, _name(rank, number), value)
        for callback, weights in best.items():
            for number, value in enumerate(weights):
                _write_array(archive, f"{callback}/{number}.npy", value)


def numpy_dtype(name: str) -> Any:
    """Return NumPy's dtype of a name of Keras's, which may be one that NumPy has not."""
    return np.dtype(getattr(ml_dtypes, name, name))


def describe(path: Path) -> Contents:
    """Return a checkpoint's description."""
    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read(_DESCRIPTION))
    del description["format"]
    variables = (Described(**{**each, "shape": tuple(each["shape"])}) for each in description["variables"])
    return Contents(**{**description, "variables": tuple(variables), "draws": tuple(description["draws"])})


def read_own(path: Path) -> dict[int, dict[int, Any]]:
    """Return the values that differ from rank 0's, as `write` got them."""
    contents = describe(path)
    own: dict[int, dict[int, Any]] = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            found = _OF_A_RANK.fullmatch(name)
            if found and (rank := int(found[1])):
                number = int(found[2])
                dtype = contents.variables[number].dtype
                own.setdefault(rank, {})[number] = _array(archive, name, dtype)
    return own


def read_best(path: Path) -> dict[str, list[Any]]:
    """Return the weights that callbacks keep, as `write` got them."""
    contents = describe(path)
    best: dict[str, list[Any]] = {}
    with zipfile.ZipFile(path) as archive:
        for callback, dtypes in contents.best.items():
            best[callback] = [_array(archive, f"{callback}/{i}.npy", dtype) for i, dtype in enumerate(dtypes)]
    return best


def reader(path: Path, variables: tuple[Described, ...]) -> Callable[[int], Any]:
    """Return a function from a variable's number to rank 0's value of it."""

    def read(number: int) -> Any:
        with zipfile.ZipFile(path) as archive:
            return _array(archive, _name(0, number), variables[number].dtype)

    return read


def _name(rank: int, number: int) -> str:
    return f"rank-{rank}/{number}.npy"


def _write_array(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    value = np.asarray(value)
    if not value.dtype.isbuiltin:
        # bfloat16 and the like, which NumPy reads back as bytes without a name: as whole numbers of their size.
        value = value.view(f"u{value.dtype.itemsize}")
    with archive.open(name, "w", force_zip64=True) as member:
        np.lib.format.write_array(member, value, allow_pickle=False)


def _array(archive: zipfile.ZipFile, name: str, dtype: str) -> Any:
    with archive.open(name) as member:
        value = np.lib.format.read_array(member, allow_pickle=False)
    return value.view(numpy_dtype(dtype))
