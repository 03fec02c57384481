"""Resolves names in the code, and evaluates its expressions as far as possible without running it."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any, ClassVar

import libcst as cst
from libcst._metadata_dependent import LazyValue
from libcst.metadata import Assignment, ImportAssignment, ParentNodeProvider, PositionProvider, ScopeProvider

from jupyter_ddl.explain.optimizers import RATES
from jupyter_ddl.modernise.names import Codemod, canonical, code_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from libcst.metadata import BaseMetadataProvider, MetadataWrapper

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
    **{name: f"keras.optimizers.{name}" for name in RATES},
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


class Names(Codemod):
    """A visitor that looks names up, also after its visit.

    Args:
        wrapper: of the program's tree.
    """

    METADATA_DEPENDENCIES: ClassVar[tuple[type[BaseMetadataProvider[Any]], ...]] = (
        *Codemod.METADATA_DEPENDENCIES,
        PositionProvider,
    )

    def __init__(self, wrapper: MetadataWrapper) -> None:
        super().__init__()
        self.wrapper = wrapper
        self._known: Mapping[Any, Mapping[cst.CSTNode, Any]] = wrapper.resolve_many(self.METADATA_DEPENDENCIES)

    def get_metadata(self, key: Any, node: cst.CSTNode, default: Any = None) -> Any:
        """Return what a provider says of a node of the original tree."""
        value = self._known[key].get(node, default)
        return value() if isinstance(value, LazyValue) else value

    def meaning(self, node: cst.CSTNode) -> str:
        """Return the canonical full name; of a name that an earlier cell made, what it is by convention."""
        if known := super().meaning(node):
            return known
        root, dot, rest = code_of(node).partition(".")
        return canonical(f"{_CONVENTIONS[root]}{dot}{rest}") if root in _CONVENTIONS and self._is_unbound(node) else ""

    def line(self, node: cst.CSTNode) -> int:
        """Return the line that a node begins on, from 1."""
        return int(self.get_metadata(PositionProvider, node).start.line)

    def assigned(self, name: cst.Name) -> list[tuple[cst.BaseExpression, bool]] | None:
        """Return what a name is assigned, each with whether that is a part of it (`a, b = it`).

        None where it is bound in another way, too (a parameter, `for`, `with`), or nowhere in this code.
        """
        found = []
        for node in self.bindings(name):
            given = self.assignment(node)
            if given is None:
                return None
            found.append(given)
        return found or None

    def assigned_in_order(self, name: cst.Name) -> list[cst.BaseExpression] | None:
        """Return what a name is assigned, from its first line to its last; None as `assigned`."""
        given = self.assigned(name)
        return None if given is None else sorted((value for value, _ in given), key=self.line)

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
        except (ValueError, ArithmeticError, TypeError, SyntaxError):
            return None

    def is_imported(self, node: cst.CSTNode) -> bool:
        """Return whether the first of a dotted name's parts is one that this code imports."""
        while isinstance(node, cst.Attribute):
            node = node.value
        scope = self.get_metadata(ScopeProvider, node, None)
        if scope is None or not isinstance(node, cst.Name):
            return False
        return any(isinstance(binding, ImportAssignment) for binding in scope[node.value])

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
            left, right = self._value(tree.left, node), self._value(tree.right, node)
            return _operation(tree.op)(left, right)
        if isinstance(tree, ast.UnaryOp):
            return _operation(tree.op)(self._value(tree.operand, node))
        if isinstance(tree, ast.Name):
            return self._value_of_name(tree.id, node)
        raise ValueError(tree)

    def _value_of_name(self, name: str, node: cst.BaseExpression) -> Any:
        """Return the one constant that a name in an expression is assigned."""
        given = [self.assigned(part) for part in _names_in(node, name)]
        values = {None if is_part else self.constant(value) for found in given for value, is_part in found or []}
        if None in given or None in values or len(values) != 1:
            raise ValueError(name)
        return values.pop()

    def bindings(self, name: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the nodes that bind a name in its scope: what it is assigned to, parameters, imports."""
        scope = self.get_metadata(ScopeProvider, name, None)
        if scope is None or not isinstance(name, cst.Name):
            return []
        return [binding.node for binding in scope[name.value] if isinstance(binding, Assignment)]

    def _is_unbound(self, node: cst.CSTNode) -> bool:
        while isinstance(node, cst.Attribute):
            node = node.value
        scope = self.get_metadata(ScopeProvider, node, None)
        return isinstance(node, cst.Name) and scope is not None and not scope[node.value]

    def assignment(self, target: cst.CSTNode) -> tuple[cst.BaseExpression, bool] | None:
        """Return what a node that binds a name assigns to it, and whether it is a part of that; None for others."""
        is_part = False
        node = self.get_metadata(ParentNodeProvider, target, None)
        while isinstance(node, (cst.Element, cst.Tuple, cst.List)):
            is_part = True
            node = self.get_metadata(ParentNodeProvider, node, None)
        if isinstance(node, cst.AssignTarget):
            node = self.get_metadata(ParentNodeProvider, node, None)
        if isinstance(node, (cst.Assign, cst.AnnAssign)) and node.value is not None:
            return node.value, is_part
        return None


def _operation(sign: ast.AST) -> Any:
    if type(sign) not in _OPERATORS:
        raise ValueError(sign)
    return _OPERATORS[type(sign)]


def _names_in(node: cst.CSTNode, name: str) -> list[cst.Name]:
    if isinstance(node, cst.Name):
        return [node] if node.value == name else []
    return [found for child in node.children for found in _names_in(child, name)]
