"""Finds the kind of data of an expression, as far as the code shows it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import libcst as cst

from jupyter_ddl.modernise.names import found, keyword

if TYPE_CHECKING:
    from jupyter_ddl.explain.names import Names

_FROM_DIRECTORY_BATCH = 32
_SEQUENCES = ("keras.utils.PyDataset", "keras.utils.Sequence")
_MAKES_BATCHES = ("batch", "rebatch", "padded_batch", "ragged_batch", "dense_to_ragged_batch")
# A dataset's methods that keep its batch size.
_KEEPS_BATCHES = {
    *("cache", "enumerate", "filter", "ignore_errors", "map", "prefetch", "repeat"),
    *("shard", "shuffle", "skip", "snapshot", "take", "with_options"),
}
_MAKES_DATASETS = ("tensorflow.data.", "tensorflow_datasets.")
_MAKES_ARRAYS = ("numpy.", "pandas.", "keras.datasets.", "keras.ops.", "tensorflow.constant", "tensorflow.random.")
_TO_ARRAYS = ("astype", "reshape", "to_numpy", "numpy")


class Kind(Enum):
    """What Keras takes as data."""

    ARRAYS = "arrays"
    DATASET = "tf.data"
    PYDATASET = "PyDataset"
    GENERATOR = "generator"


def kind_of(names: Names, data: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> Kind | None:
    """Return the kind of an expression; None where only running the code shows it."""
    if isinstance(data, (cst.List, cst.Dict, cst.BinaryOperation)):
        return Kind.ARRAYS
    if isinstance(data, cst.Subscript):
        return kind_of(names, data.value, seen)
    if isinstance(data, cst.Name) and data.value not in seen:
        values = [value for value, _ in names.assigned(data) or [] if not _is_of(value, data.value)]
        return _of_all(names, values, seen | {data.value})
    return _kind_of_call(names, data, seen) if isinstance(data, cst.Call) else None


def returned(function: cst.FunctionDef) -> list[cst.BaseExpression]:
    """Return what a function returns, functions within it left out."""
    returns = found(function.body, cst.Return, outside=(cst.FunctionDef,))
    return [each.value for each in returns if each.value is not None]


def yields(function: cst.FunctionDef) -> bool:
    """Return whether a function makes a generator."""
    return any(found(function.body, cst.Yield, outside=(cst.FunctionDef,)))


def _kind_of_call(names: Names, call: cst.Call, seen: frozenset[str]) -> Kind | None:
    meaning, method = names.meaning(call.func), method_of(call)
    if meaning.startswith(_MAKES_DATASETS) or (meaning or method).endswith(
        ("set_from_directory", "dataset_from_array")
    ):
        return Kind.DATASET
    if meaning.startswith(_MAKES_ARRAYS):
        return Kind.ARRAYS
    if (made := names.definition(call.func, cst.ClassDef)) is not None:
        is_sequence = any(names.meaning(base.value) in _SEQUENCES for base in made.bases)
        return Kind.PYDATASET if is_sequence else None
    if (function := names.definition(call.func, cst.FunctionDef)) is not None:
        if yields(function):
            return Kind.GENERATOR
        name = function.name.value
        return None if name in seen else _of_all(names, returned(function), seen | {name})
    if method in _TO_ARRAYS:
        return Kind.ARRAYS
    # A dataset's methods make datasets; of anything else nothing is known.
    return kind_of(names, call.func.value, seen) if isinstance(call.func, cst.Attribute) else None


def _of_all(names: Names, values: list[cst.BaseExpression], seen: frozenset[str]) -> Kind | None:
    kinds = {kind_of(names, value, seen) for value in values}
    return kinds.pop() if len(kinds) == 1 else None


def batch_of(names: Names, data: cst.BaseExpression, seen: frozenset[cst.BaseExpression] = frozenset()) -> Any:
    """Return the batch size in a dataset's code; None where it has none."""
    if isinstance(data, cst.Name):
        return _batch_of_name(names, data, seen)
    if not isinstance(data, cst.Call):
        return None
    name, passed = method_of(data), keyword(data, "batch_size")
    if name in _MAKES_BATCHES:
        first = data.args[0] if data.args and data.args[0].keyword is None else passed
        return None if first is None else names.constant(first.value)
    if names.meaning(data.func).endswith("dataset_from_directory"):
        return _FROM_DIRECTORY_BATCH if passed is None else names.constant(passed.value)
    keeps = name in _KEEPS_BATCHES and isinstance(data.func, cst.Attribute)
    return batch_of(names, data.func.value, seen) if keeps and isinstance(data.func, cst.Attribute) else None


def _batch_of_name(names: Names, name: cst.Name, seen: frozenset[cst.BaseExpression]) -> Any:
    """Return the batch size of what a name was assigned last: each `ds = ds.rebatch(8)` goes by the one before."""
    given = [value for value, _ in names.assigned(name) or []]
    earlier = [value for value in given if names.line(value) < names.line(name)] or given
    last = max(earlier, key=names.line, default=None)
    return None if last is None or last in seen else batch_of(names, last, seen | {last})


def method_of(call: cst.Call) -> str:
    """Return the name of the method that is called; empty where it is a function."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _is_of(value: cst.BaseExpression, name: str) -> bool:
    """Return whether an expression is made of a name by methods alone: `ds = ds.batch(32)` says nothing new."""
    while isinstance(value, (cst.Call, cst.Attribute, cst.Subscript)):
        value = value.func if isinstance(value, cst.Call) else value.value
    return isinstance(value, cst.Name) and value.value == name
