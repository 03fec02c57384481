"""Finds the kind of data of an expression, as far as the code shows it."""

# ruff: noqa: D102, N802 (libcst's hooks)

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import libcst as cst

from jupyter_ddl.modernise.names import keyword

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
_MAKES_ARRAYS = ("numpy.", "pandas.", "keras.datasets.", "keras.ops.", "tensorflow.constant", "tensorflow.random.")


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
        given = names.assigned(data) or []
        kinds = {kind_of(names, value, seen | {data.value}) for value, _ in given if not _is_of(value, data.value)}
        return kinds.pop() if len(kinds) == 1 else None
    return _kind_of_call(names, data, seen) if isinstance(data, cst.Call) else None


def _kind_of_call(names: Names, call: cst.Call, seen: frozenset[str]) -> Kind | None:
    meaning = names.meaning(call.func)
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if meaning.startswith(("tensorflow.data.", "tensorflow_datasets.")) or method.endswith("dataset_from_directory"):
        return Kind.DATASET
    if meaning.endswith(("dataset_from_directory", "dataset_from_array")):
        return Kind.DATASET
    if meaning.startswith(_MAKES_ARRAYS):
        return Kind.ARRAYS
    if (made := names.definition(call.func, cst.ClassDef)) is not None:
        is_sequence = any(names.meaning(base.value) in _SEQUENCES for base in made.bases)
        return Kind.PYDATASET if is_sequence else None
    if (function := names.definition(call.func, cst.FunctionDef)) is not None:
        return _kind_of_result(names, function, seen)
    if method in ("astype", "reshape", "to_numpy", "numpy"):
        return Kind.ARRAYS
    # A dataset's methods make datasets; of anything else nothing is known.
    return kind_of(names, call.func.value, seen) if isinstance(call.func, cst.Attribute) else None


def _kind_of_result(names: Names, function: cst.FunctionDef, seen: frozenset[str]) -> Kind | None:
    name = function.name.value
    if name in seen:
        return None
    finder = Returns()
    function.body.visit(finder)
    if finder.yields:
        return Kind.GENERATOR
    kinds = {kind_of(names, value, seen | {name}) for value in finder.values}
    return kinds.pop() if len(kinds) == 1 else None


def batch_of(names: Names, data: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> Any:
    """Return the batch size in a dataset's code; None where it has none."""
    if isinstance(data, cst.Name):
        return _batch_of_name(names, data, seen)
    if not isinstance(data, cst.Call):
        return None
    name = data.func.attr.value if isinstance(data.func, cst.Attribute) else ""
    passed = keyword(data, "batch_size")
    if name in _MAKES_BATCHES:
        first = data.args[0] if data.args and data.args[0].keyword is None else passed
        return None if first is None else names.constant(first.value)
    if names.meaning(data.func).endswith("dataset_from_directory"):
        return _FROM_DIRECTORY_BATCH if passed is None else names.constant(passed.value)
    if name not in _KEEPS_BATCHES:
        return None
    return batch_of(names, data.func.value, seen) if isinstance(data.func, cst.Attribute) else None


def _batch_of_name(names: Names, name: cst.Name, seen: frozenset[str]) -> Any:
    """Return the batch size of what a name was assigned last: each `ds = ds.rebatch(8)` goes by the one before."""
    given = names.assigned_in_order(name) or []
    if not given or f"{name.value} {len(given)}" in seen:
        return None
    earlier = [value for value in given if names.line(value) < names.line(name)] or given
    last = earlier[-1]
    return batch_of(names, last, seen | {f"{name.value} {len(given)}"} if last is given[0] else seen)


def _is_of(value: cst.BaseExpression, name: str) -> bool:
    """Return whether an expression is made of a name by methods alone: `ds = ds.batch(32)` says nothing new."""
    while isinstance(value, (cst.Call, cst.Attribute, cst.Subscript)):
        value = value.func if isinstance(value, cst.Call) else value.value
    return isinstance(value, cst.Name) and value.value == name


class Returns(cst.CSTVisitor):
    """What a function returns, functions within it left out."""

    def __init__(self) -> None:
        self.values: list[cst.BaseExpression] = []
        self.yields = False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: ARG002 (libcst's signature)
        return False

    def visit_Return(self, node: cst.Return) -> None:
        if node.value is not None:
            self.values.append(node.value)

    def visit_Yield(self, node: cst.Yield) -> None:  # noqa: ARG002
        self.yields = True
