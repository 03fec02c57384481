"""Resolves names in the code, and evaluates its expressions as far as possible without running it."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any, ClassVar

import libcst as cst
from libcst._metadata_dependent import LazyValue
from libcst.metadata import PositionProvider

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.modernise.names import OPTIMIZERS, Codemod, canonical, code_of, found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from libcst.metadata import BaseMetadataProvider, MetadataWrapper

IN_PLACE = "Run it with --auto, without --explain: nothing needs to be written out for that."
RANK_0_CALLBACKS = ("ModelCheckpoint", "TensorBoard", "CSVLogger", "BackupAndRestore", "RemoteMonitor")
_ON_RANK_0 = {f"keras.callbacks.{name}" for name in RANK_0_CALLBACKS}
# What a name stands for where an earlier cell imported it.
_CONVENTIONS = {
    "keras": "keras",
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "np": "numpy",
    "layers": "keras.layers",
    "optimizers": "keras.optimizers",
    "callbacks": "keras.callbacks",
    "tfds": "tensorflow_datasets",
    **{name: f"keras.optimizers.{name}" for name in OPTIMIZERS},
    **{name: f"keras.callbacks.{name}" for name in (*RANK_0_CALLBACKS, "ReduceLROnPlateau", "LearningRateScheduler")},
}
_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def methods_of(made: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    """Return a class's methods by name."""
    return {part.name.value: part for part in made.body.body if isinstance(part, cst.FunctionDef)}


class Names(Codemod):
    """Looks up the names of a program.

    Args:
        wrapper: of the program's tree.
    """

    METADATA_DEPENDENCIES: ClassVar[tuple[type[BaseMetadataProvider[Any]], ...]] = (
        *Codemod.METADATA_DEPENDENCIES,
        PositionProvider,
    )

    def __init__(self, wrapper: MetadataWrapper) -> None:
        super().__init__()
        self.module = wrapper.module
        self._known: Mapping[Any, Mapping[cst.CSTNode, Any]] = wrapper.resolve_many(self.METADATA_DEPENDENCIES)
        self.calls = list(found(self.module, cst.Call))
        self.classes = list(found(self.module, cst.ClassDef))

    def get_metadata(self, key: Any, node: cst.CSTNode, default: Any = None) -> Any:
        """Return what a provider says of a node of the original tree."""
        value = self._known[key].get(node, default)
        return value() if isinstance(value, LazyValue) else value

    def meaning(self, node: cst.CSTNode) -> str:
        """Return the canonical full name; of a name that an earlier cell made, what it is by convention."""
        if known := super().meaning(node):
            return known
        root, dot, rest = code_of(node).partition(".")
        is_unbound = root in _CONVENTIONS and self.bound_by(node) == set()
        return canonical(f"{_CONVENTIONS[root]}{dot}{rest}") if is_unbound else ""

    def line(self, node: cst.CSTNode) -> int:
        """Return the line that a node begins on, from 1."""
        return int(self.get_metadata(PositionProvider, node).start.line)

    def refusal(self, rule: str, node: cst.CSTNode, remedy: str = IN_PLACE, *, what: str | None = None) -> InvalidInput:
        """Return the error that names a node, by its code or as `what`, with its line."""
        return InvalidInput(rule, f"line {self.line(node)}: {code_of(node) if what is None else what}", remedy)

    def definition(self, name: cst.BaseExpression, kind: type[Any]) -> Any:
        """Return the one function or class of this code that a name stands for; None for others."""
        nodes = self.bindings(name)
        return nodes[0] if len(nodes) == 1 and isinstance(nodes[0], kind) else None

    def constant(self, node: cst.BaseExpression | None) -> Any:
        """Return the value of a literal, of arithmetic on them, or of a name that is assigned one once; else None."""
        if node is None:
            return None
        try:
            return self._value(ast.parse(code_of(node).strip(), mode="eval").body, node)
        except (ValueError, ArithmeticError, TypeError, SyntaxError, KeyError):
            return None

    def is_rank_0_callback(self, node: cst.BaseExpression) -> bool:
        """Return whether an expression is a callback that writes files, or to a network."""
        if isinstance(node, cst.Name):
            given = self.assigned(node) or []
            return bool(given) and all(isinstance(v, cst.Call) and self.is_rank_0_callback(v) for v, _ in given)
        return isinstance(node, cst.Call) and self.meaning(node.func) in _ON_RANK_0

    def _value(self, tree: ast.expr, node: cst.BaseExpression) -> Any:
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.BinOp):
            return _OPERATORS[type(tree.op)](self._value(tree.left, node), self._value(tree.right, node))
        if isinstance(tree, ast.UnaryOp):
            return _OPERATORS[type(tree.op)](self._value(tree.operand, node))
        if isinstance(tree, ast.Name):
            return self._value_of_name(tree.id, node)
        raise ValueError(tree)

    def _value_of_name(self, name: str, node: cst.BaseExpression) -> Any:
        """Return the one constant that a name in an expression is assigned."""
        given = [self.assigned(part) for part in found(node, cst.Name) if part.value == name]
        values = {None if is_part else self.constant(value) for each in given for value, is_part in each or []}
        if None in given or None in values or len(values) != 1:
            raise ValueError(name)
        return values.pop()
